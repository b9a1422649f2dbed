"""The lake load: topics into a Delta table, exactly once, as a loop of bounded Spark jobs.

Each job is planned from the table's own last commit: it begins where the table ends and goes to what the brokers have
now. Its tasks write Parquet files; the driver adds all of them and the new ends in one atomic commit. So there is no
other checkpoint: a crash anywhere repeats a plan, and two copies of a load cannot both commit. See `lake` for why.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self
from uuid import UUID

from penstock.client.client import EARLIEST, LATEST, Client, Partition
from penstock.config.limits import LOAD_OFFSETS_PER_JOB
from penstock.errors import ErrorCode, PenstockError, RequestError
from penstock.spark.lake.delta import LakeTable
from penstock.spark.lake.records import DataFile, Gap, TopicPartition
from penstock.spark.load.options import LoadOptions as LoadOptions
from penstock.spark.load.writing import LoadSource, plan_option
from penstock.spark.read.plan import DataLossError, OffsetRange, tasks_of

if TYPE_CHECKING:
    from types import TracebackType

    from pyspark.sql import SparkSession


ERROR_LINE = re.compile(r"(?!org\.apache|py4j)[\w.]*(Error|Exception): .")
"""A line of a stack trace that says what went wrong, and not who passed it on."""


class JobError(PenstockError):
    """A task of a job failed, for a reason that the message gives. Nothing was committed."""


class Stop(Protocol):
    """What tells a load to end; a threading.Event is one."""

    def is_set(self) -> bool: ...

    def wait(self, timeout: float) -> bool: ...


@dataclass(slots=True)
class Plan:
    """One bounded job: where each partition begins in the table, and ends after the commit; what to read between."""

    starts: dict[TopicPartition, int] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    ranges: list[OffsetRange] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    lag: int = 0
    """Offsets that the brokers have beyond the plan's end."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one job did."""

    version: int
    rows: int
    files: int
    lag: int
    seconds: float


class Load:
    """A load that is running. A context manager: it holds connections to the brokers."""

    def __init__(self, spark: SparkSession, options: LoadOptions) -> None:
        self.options = options
        self._spark = spark
        self._runner = asyncio.Runner()
        self._client = Client(options.bootstrap, client_id=options.client_id, timeout_ms=options.timeout_ms)
        self.lake = LakeTable.open(str(Path(options.table).absolute()), options.pipeline)
        spark.dataSource.register(LoadSource)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._client.close()
        self._runner.close()

    def run(self, stop: Stop, interval_ms: int, heard: Callable[[Outcome], None], *, once: bool) -> None:
        """Repeats jobs until told to stop, or until caught up if `once`; an interval counts from start to start.

        Raises LakeConflictError when another copy of the pipeline is at work, JobError, DataLossError, RequestError,
        UnreachableError.
        """
        while not stop.is_set():
            began = time.monotonic()
            outcome = self.run_job()
            if outcome is not None:
                heard(outcome)
            if once and (outcome is None or not outcome.lag):
                return
            if outcome is None or not outcome.lag:
                stop.wait(max(0.0, began + interval_ms / 1000 - time.monotonic()))

    def run_job(self) -> Outcome | None:
        """Plans, runs and commits one job; None if there is nothing new."""
        began = time.monotonic()
        self.lake.refresh()
        plan = self._runner.run(self.plan())
        if not plan.ranges and not plan.gaps:
            return None
        files, gaps = self._execute(plan)
        version = self.lake.commit(files, plan.starts, plan.ends, [*plan.gaps, *gaps])
        rows = sum(file.rows for file in files)
        return Outcome(version, rows, len(files), plan.lag, time.monotonic() - began)

    async def plan(self) -> Plan:
        """From where the table ends to what the brokers have, at most `offsets_per_job` offsets."""
        partitions = await self._partitions()
        earliest = await self._offsets(partitions, EARLIEST)
        latest = await self._offsets(partitions, LATEST)
        known = {p: self.lake.end(p) for p in partitions}
        fresh = [p for p, end in known.items() if end is None]
        begin = await self._offsets(fresh, self.options.starting) if fresh else {}
        plan = Plan()
        waiting: dict[TopicPartition, tuple[int, int]] = {}
        for partition in partitions:
            end = known[partition]
            start = begin[partition] if end is None else end
            start = latest[partition] if start < 0 else start  # no record is as late as the time to start from
            first, last = earliest[partition], latest[partition]
            if start > last or (start < first and self.options.fail_on_data_loss):
                raise DataLossError(self._loss(partition, start, first, last))
            if start == last:
                continue
            plan.starts[partition] = start
            if start < first:
                plan.gaps.append(Gap(partition, start, first, "deleted"))
            waiting[partition] = (max(start, first), last)
        self._share_out(plan, waiting)
        return plan

    def _share_out(self, plan: Plan, waiting: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Gives each partition its part of the job: all that waits, or the same fraction of it."""
        total = sum(last - first for first, last in waiting.values())
        fraction = min(1.0, self.options.offsets_per_job / total) if total else 1.0
        for partition, (first, last) in waiting.items():
            end = last if fraction == 1.0 else first + max(1, int((last - first) * fraction))
            plan.ends[partition] = end
            plan.lag += last - end
            if first < end:
                plan.ranges.append(OffsetRange(partition.topic, partition.topic_id, partition.partition, first, end))

    def _execute(self, plan: Plan) -> tuple[list[DataFile], list[Gap]]:
        """Runs the job on Spark. An exception means that nothing was committed."""
        from penstock.spark.read.fetching import Connect

        if not plan.ranges:
            return [], []
        options = self.options
        connect = Connect(options.bootstrap, options.client_id, options.timeout_ms, options.isolation)
        small = sum(each.size for each in plan.ranges) < LOAD_OFFSETS_PER_JOB // 1000
        tasks = tasks_of(plan.ranges, 1 if small else os.cpu_count() or 1)
        text = plan_option(connect, tasks, self.lake.directory, skip_corrupt=options.skip_corrupt)
        rows = self._rows(text)
        for row in rows:
            if row.error is not None:
                raise JobError(row.error)
        files, gaps = [], []
        for row in rows:
            for topic, topic_id, partition, start, end, reason in json.loads(row.gaps):
                gaps.append(Gap(TopicPartition(topic, UUID(topic_id), partition), start, end, reason))
            if row.path is not None:
                files.append(DataFile(row.path, row.size_bytes, row.rows, json.loads(row.low), json.loads(row.high)))
        return files, gaps

    def _rows(self, plan: str) -> Sequence[Any]:
        """Runs a plan; Spark's own troubles become one line."""
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        try:
            return self._spark.read.format(LoadSource.name()).option("plan", plan).load().collect()
        except (PySparkException, Py4JError) as error:
            lines = [line.strip() for line in str(error).splitlines()]
            said = [line for line in lines if ERROR_LINE.match(line)]
            raise JobError(f"Spark could not run the job: {said[-1] if said else lines[0]}") from error

    async def _partitions(self) -> list[TopicPartition]:
        answer = await self._client.refresh(self.options.topics)
        partitions = []
        for topic in answer.topics:
            if topic.error_code != ErrorCode.NONE:
                raise RequestError(
                    ErrorCode(topic.error_code), f"topic {topic.name}: {ErrorCode(topic.error_code).name}"
                )
            assert topic.name is not None
            partitions += [TopicPartition(topic.name, topic.topic_id, p.partition_index) for p in topic.partitions]
        return sorted(partitions)

    async def _offsets(self, partitions: Sequence[TopicPartition], at: int) -> dict[TopicPartition, int]:
        names: list[Partition] = [(p.topic, p.partition) for p in partitions]
        found = await self._client.offsets(names, at, isolation=self.options.isolation)
        return {p: found[name].offset for p, name in zip(partitions, names, strict=True)}

    def _loss(self, partition: TopicPartition, start: int, first: int, last: int) -> str:
        return (
            f"{partition.topic}-{partition.partition}: the table ends at {start}, the brokers have {first} to {last}; "
            "with --allow-data-loss the load goes on and the table records the gap"
        )
