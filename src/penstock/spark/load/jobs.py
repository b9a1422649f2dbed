"""Runs the tasks of a job, on Spark or in this process, and gathers what they tell."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa

from penstock.errors import PenstockError
from penstock.records.run import SeenEpoch
from penstock.spark.lake.records import DataFile, Gap, TopicPartition
from penstock.spark.load.formats.format import wider
from penstock.spark.load.work import JobPlan, work

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ERROR_LINE = re.compile(r"(?!org\.apache|py4j)[\w.]*(Error|Exception): .")
"""A line of a stack trace that says what went wrong, and not who passed it on."""


class JobError(PenstockError):
    """A task of a job failed, for a reason that the message gives. Nothing was committed."""


@dataclass(slots=True)
class Result:
    """The combined results of all tasks of a job."""

    files: dict[tuple[int, bool], list[DataFile]] = field(default_factory=dict)
    """By target, and whether they are the quarantine's."""
    gaps: list[Gap] = field(default_factory=list)
    unknown: dict[int, dict[str, pa.DataType]] = field(default_factory=dict)
    """Columns that a target lacks. If there are any, or unknown schemas, nothing else counts."""
    schemas: dict[str, set[int]] = field(default_factory=dict)
    epochs: dict[TopicPartition, dict[int, int]] = field(default_factory=dict)
    """The leader epochs of the batches that were read, each with the offset up to which it was seen."""

    def newest_epochs(self) -> dict[TopicPartition, SeenEpoch]:
        """The epoch of the last batch of each partition."""
        return {
            p: max((SeenEpoch(*each) for each in some.items()), key=attrgetter("end"))
            for p, some in self.epochs.items()
            if some
        }

    def rows(self, *, quarantine: bool) -> int:
        return sum(
            f.rows for (_, is_quarantine), some in self.files.items() if is_quarantine == quarantine for f in some
        )


def run_inline(plan: JobPlan) -> Result:
    """Runs all tasks one after another in this process. Raises JobError."""
    return gather(plan, (line for task in plan.tasks for line in work(plan, task)))


def run_on_spark(spark: SparkSession, plan: JobPlan) -> Result:
    """Runs the tasks on Spark; Spark's own troubles become one line. Raises JobError."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    from penstock.spark.load.writing import LoadSource

    try:
        rows: Sequence[Any] = spark.read.format(LoadSource.name()).option("plan", plan.to_json()).load().collect()
    except (PySparkException, Py4JError) as error:
        lines = [line.strip() for line in str(error).splitlines()] or [repr(error)]
        said = [line for line in lines if ERROR_LINE.match(line)]
        raise JobError(f"Spark could not run the job: {said[-1] if said else lines[0]}") from error
    return gather(plan, (row.told for row in rows))


def gather(plan: JobPlan, lines: Iterable[str]) -> Result:
    """Gathers the messages of `work`. Raises JobError if a task failed; then the files of the others are deleted."""
    result = Result()
    errors = []
    for line in lines:
        told = json.loads(line)
        if "error" in told:
            errors.append(told["error"])
        else:
            _take(result, told)
    if errors:
        discard(plan, result)
        raise JobError(errors[0])
    return result


def _take(result: Result, told: dict[str, Any]) -> None:
    """Adds one thing that a task told."""
    if "file" in told:
        result.files.setdefault((told["target"], told["quarantine"]), []).append(DataFile(**told["file"]))
    elif "gaps" in told:
        for topic, topic_id, partition, start, end, reason in told["gaps"]:
            result.gaps.append(Gap(TopicPartition(topic, UUID(topic_id), partition), start, end, reason))
    elif "epochs" in told:
        for topic, topic_id, partition, seen in told["epochs"]:
            known = result.epochs.setdefault(TopicPartition(topic, UUID(topic_id), partition), {})
            known.update((epoch, max(end, known.get(epoch, 0))) for epoch, end in seen)
    elif "unknown" in told:
        unknown = result.unknown.setdefault(told["target"], {})
        for each in pa.ipc.read_schema(pa.py_buffer(base64.b64decode(told["unknown"]))):
            unknown[each.name] = wider(unknown.get(each.name), each.type)
    else:
        for topic, ids in told["schemas"].items():
            result.schemas.setdefault(topic, set()).update(ids)


def discard(plan: JobPlan, result: Result) -> None:
    """Deletes files that no commit named: only of tables that no commit was asked of since they were written."""
    for (at, quarantine), files in result.files.items():
        target = plan.targets[at]
        destination = target.quarantine if quarantine else target.destination
        assert destination is not None
        for file in files:
            destination.discard(file.path)
