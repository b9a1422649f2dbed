"""Asks the brokers what a read needs to know: which partitions there are, where they begin and end, where times are.

One client and one event loop live as long as the object. The driver's side of a stream keeps it from microbatch to
microbatch, so that planning one costs a metadata request and the offsets requests, all on open connections. A failure
that may pass, such as a connection that the broker closed meanwhile, is tried again.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from penstock.client.client import EARLIEST, LATEST, READ_UNCOMMITTED, Client, Partition
from penstock.errors import ErrorCode, RequestError, UnreachableError
from penstock.protocol.messages.metadata_response import MetadataResponseTopic
from penstock.records.batch import entries
from penstock.spark.limits import SPARK_SAMPLE_BYTES, SPARK_SAMPLED_PARTITIONS
from penstock.spark.read.options import Offsets, ReadOptions, Timestamps
from penstock.spark.read.plan import Bounds, Position, Snapshot

Answer = TypeVar("Answer")


class Brokers:
    """See the module's head. Call `close` when done."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._runner = asyncio.Runner()
        self._client = Client(
            options.bootstrap,
            client_id=options.client_id,
            timeout_ms=options.timeout_ms,
            security=options.security,
        )

    def close(self) -> None:
        """Ends connections and the event loop."""
        self._client.close()
        self._runner.run(asyncio.sleep(0))  # lets the transports close
        self._runner.close()

    def snapshot(self) -> Snapshot:
        """The present offsets of the chosen partitions, sorted.

        Raises RequestError for a partition that is assigned and does not exist, UnreachableError.
        """
        return self._run(self._snapshot)

    def existing(self) -> Snapshot:
        """Like `snapshot`, but also raises RequestError for a topic that does not exist."""
        snapshot = self.snapshot()
        for name in snapshot.missing:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise RequestError(code, f"topic {name}: {code.name}")
        return snapshot

    def starting(self, snapshot: Snapshot) -> dict[Partition, Position]:
        """Where the options begin. Raises RequestError for a partition without an offset, a time or a late record."""
        options = self._options
        found = self._run(lambda: self._resolve(snapshot, options.starting, options.starting_ms))
        starts = {}
        for partition, offset in found.items():
            if offset is None and options.late_start_is_error:
                raise RequestError(
                    ErrorCode.OFFSET_NOT_AVAILABLE,
                    f"{partition[0]}-{partition[1]} has no record at or after the starting time; "
                    "startingOffsetsByTimestampStrategy = latest begins at its end instead",
                )
            starts[partition] = position(snapshot.bounds[partition], offset)
        return starts

    def ending(self, snapshot: Snapshot) -> dict[Partition, Position]:
        """Where the options of a batch end. Raises RequestError for a partition without an offset or a time."""
        options = self._options
        found = self._run(lambda: self._resolve(snapshot, options.ending, options.ending_ms))
        return {partition: position(snapshot.bounds[partition], offset) for partition, offset in found.items()}

    def bytes_an_offset(self, waiting: Mapping[Partition, tuple[int, int]]) -> dict[Partition, float]:
        """How many bytes of log an offset takes, from the first batches of each partition's range [begin, end).

        The largest ranges are looked at, up to a limit; the others are taken to be as their mean.
        """
        return self._run(lambda: self._sample(waiting))

    def _run(self, ask: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer:
        """Runs a question, again if it fails in a way that may pass."""
        options = self._options
        deadline = time.monotonic() + options.timeout_ms / 1000
        tries = 0
        while True:
            try:
                return self._runner.run(ask())
            except (RequestError, UnreachableError) as error:
                may_pass = isinstance(error, UnreachableError) or error.code.retriable
                if not may_pass or tries == options.retries or time.monotonic() > deadline:
                    raise
            tries += 1
            time.sleep(options.retry_interval_ms / 1000)

    async def _snapshot(self) -> Snapshot:
        options, client = self._options, self._client
        topics, missing = await self._topics()
        ids = {topic.name or "": topic.topic_id for topic in topics}
        partitions = sorted(
            (name, index) for name, indexes in self._chosen(topics).items() for index in indexes if name in ids
        )
        if not partitions:
            return Snapshot({}, missing)
        isolations = {READ_UNCOMMITTED, options.isolation}
        earliest, *ends = await asyncio.gather(
            client.offsets(partitions, EARLIEST),
            *(client.offsets(partitions, LATEST, isolation=isolation) for isolation in sorted(isolations)),
        )
        high, latest = ends[0], ends[-1]
        bounds = {p: Bounds(ids[p[0]], earliest[p].offset, latest[p].offset, high[p].offset) for p in partitions}
        return Snapshot(bounds, missing)

    async def _topics(self) -> tuple[list[MetadataResponseTopic], tuple[str, ...]]:
        """Metadata of the chosen topics, and the names of those that do not exist."""
        options = self._options
        names = options.assign if options.assign is not None else options.subscribe
        answer = await self._client.refresh(names)
        found, missing = [], []
        for topic in answer.topics:
            name = topic.name or ""
            if options.pattern is not None and (topic.is_internal or not re.fullmatch(options.pattern, name)):
                continue
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                missing.append(name)
            elif topic.error_code:
                raise RequestError(ErrorCode(topic.error_code), f"topic {name}: {ErrorCode(topic.error_code).name}")
            else:
                found.append(topic)
        return found, tuple(missing)

    def _chosen(self, topics: Iterable[MetadataResponseTopic]) -> dict[str, Sequence[int]]:
        """The partitions that are read, by topic. Raises RequestError for one that is assigned and does not exist."""
        assign = self._options.assign
        there = {topic.name or "": range(len(topic.partitions)) for topic in topics}
        if assign is None:
            return dict(there)
        for name, indexes in assign.items():
            for index in indexes:
                if name in there and index not in there[name]:
                    said = f"{name} has partitions 0-{len(there[name]) - 1}, not {index}"
                    raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, said)
        return dict(assign)

    async def _resolve(
        self, snapshot: Snapshot, offsets: Offsets, times: Timestamps | None
    ) -> dict[Partition, int | None]:
        """An offset a partition; None where a time lies beyond the last record."""
        if times is not None:
            return await self._at_times(snapshot, times)
        resolved: dict[Partition, int | None] = {}
        for (topic, index), bounds in snapshot.bounds.items():
            known: dict[int | str, int] = {EARLIEST: bounds.earliest, LATEST: bounds.latest}
            known |= {"earliest": bounds.earliest, "latest": bounds.latest}
            offset = offsets if isinstance(offsets, str) else offsets.get(topic, {}).get(index)
            if offset is None:
                raise RequestError(ErrorCode.INVALID_REQUEST, f"no offset is given for {topic}-{index}, which is read")
            resolved[topic, index] = known.get(offset, offset if isinstance(offset, int) else None)
        if isinstance(offsets, dict):
            _all_are_read(offsets, snapshot, "an offset")
        return resolved

    async def _at_times(self, snapshot: Snapshot, times: Timestamps) -> dict[Partition, int | None]:
        by_time: dict[int, list[Partition]] = {}
        for topic, index in snapshot.bounds:
            timestamp_ms = times if isinstance(times, int) else times.get(topic, {}).get(index)
            if timestamp_ms is None:
                raise RequestError(
                    ErrorCode.INVALID_REQUEST, f"no timestamp is given for {topic}-{index}, which is read"
                )
            by_time.setdefault(timestamp_ms, []).append((topic, index))
        if isinstance(times, dict):
            _all_are_read(times, snapshot, "a timestamp")
        resolved: dict[Partition, int | None] = {}
        for timestamp_ms, some in by_time.items():
            found = await self._client.offsets(some, timestamp_ms, isolation=self._options.isolation)
            resolved |= {partition: None if at.offset < 0 else at.offset for partition, at in found.items()}
        return resolved

    async def _sample(self, waiting: Mapping[Partition, tuple[int, int]]) -> dict[Partition, float]:
        largest = sorted(waiting, key=lambda p: (waiting[p][0] - waiting[p][1], p))[:SPARK_SAMPLED_PARTITIONS]
        fetched = await self._client.fetch(
            {partition: waiting[partition][0] for partition in largest},
            max_wait_ms=0,
            max_bytes=SPARK_SAMPLE_BYTES * len(largest),
            partition_max_bytes=SPARK_SAMPLE_BYTES,
            isolation=self._options.isolation,
        )
        sizes: dict[Partition, float] = {}
        for partition, got in fetched.items():
            batches = list(entries(got.records))
            if batches:
                (_, first), (at, last) = batches[0], batches[-1]
                sizes[partition] = (at + last.size_bytes) / (last.next_offset - first.base_offset)
        mean = sum(sizes.values()) / len(sizes) if sizes else 1.0
        return {partition: sizes.get(partition, mean) for partition in waiting}


def position(bounds: Bounds, offset: int | None) -> Position:
    """The position at an offset; None stands for the end."""
    return Position(bounds.topic_id, bounds.latest if offset is None else offset)


def _all_are_read(given: Mapping[str, Mapping[int, int]], snapshot: Snapshot, what: str) -> None:
    """Raises RequestError for a partition that the options speak of, and which is not read."""
    for topic, partitions in given.items():
        for index in partitions:
            if (topic, index) not in snapshot.bounds:
                raise RequestError(ErrorCode.INVALID_REQUEST, f"{what} is given for {topic}-{index}, which is not read")
