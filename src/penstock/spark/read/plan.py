"""What a read covers: which offsets, what is lost of them, and which task reads what. Pure; `brokers` does the asking.

A batch read and each microbatch of a stream are the same here: two sets of positions, what the brokers have, and the
ranges between. Ranges are then cut into tasks of equal size: a large range is split, many small ones share a task,
because a Spark task costs milliseconds and a fetch of a small partition does not.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from penstock.client.client import Partition
from penstock.errors import ErrorCode, PenstockError, RequestError
from penstock.spark.limits import SPARK_TASK_OFFSETS_WORTHWHILE

logger = logging.getLogger(__name__)


class DataLossError(PenstockError):
    """Offsets that were asked for are no longer on the brokers."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets [start, end) of one partition of one incarnation of a topic."""

    topic: str
    topic_id: UUID
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Bounds:
    """The offsets [earliest, latest) that the brokers have of one partition.

    `latest` is as the isolation sees it (the last stable offset for read_committed), `high_watermark` for everybody.
    """

    topic_id: UUID
    earliest: int
    latest: int
    high_watermark: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the brokers have now of all partitions that a read chooses, and the topics that it names and they lack."""

    bounds: Mapping[Partition, Bounds]
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Position:
    """Where a read is in a partition: everything before `offset` has been read.

    `topic_id` is None where nobody wrote it down: in a checkpoint of the official connector. `begin` is the offset at
    which reading of the partition began or will begin, as long as no earlier position tells: see `stream_offsets`.
    """

    topic_id: UUID | None
    offset: int
    begin: int | None = None


Positions = Mapping[Partition, Position]


@dataclass(slots=True)
class Losses:
    """The handling of offsets that are gone: an error or a warning, each once."""

    are_errors: bool
    said: set[str] = field(default_factory=set)

    def report(self, partition: Partition, what: str, remedy: str) -> None:
        """Raises DataLossError, or logs what is passed over."""
        message = f"{partition[0]}-{partition[1]}: {what}"
        if self.are_errors:
            raise DataLossError(f"{message}; failOnDataLoss = false {remedy}")
        if message not in self.said:
            self.said.add(message)
            logger.warning("%s (failOnDataLoss = false %s)", message, remedy)


def goes_on_at(partition: Partition, position: Position, bounds: Bounds | None, losses: Losses) -> int:
    """The offset at which reading goes on, which is the position's unless something was lost.

    Raises DataLossError when something was, and that is an error.
    """
    offset = position.offset
    if bounds is None:
        losses.report(partition, f"the topic is gone, it was read up to {offset}", "waits for it to come back")
        return offset
    if position.topic_id not in (None, bounds.topic_id):
        what = f"the topic was deleted and created anew (id {position.topic_id} was read up to {offset}, the brokers "
        losses.report(partition, what + f"have {bounds.topic_id})", "reads the new one from its start")
        return bounds.earliest
    if offset < bounds.earliest:
        what = f"read up to {offset}, and the brokers have {bounds.earliest} to {bounds.latest}"
        losses.report(partition, what, "goes on with what is left")
        return bounds.earliest
    if offset > bounds.high_watermark:
        what = f"read up to {offset}, and the brokers' log ends at {bounds.high_watermark}: it was cut"
        losses.report(partition, what, "goes on at its end")
        return bounds.latest
    return offset


def ranges_between(start: Positions, end: Positions, snapshot: Snapshot, losses: Losses) -> list[OffsetRange]:
    """The non-empty ranges from one set of positions to another, cut to what the brokers have.

    Raises DataLossError when something would be cut and must not be.
    """
    ranges = []
    for partition, until in end.items():
        begin = until.begin
        if begin is None:
            begin = start[partition].offset if partition in start else 0
        if begin >= until.offset:
            continue
        bounds = snapshot.bounds.get(partition)
        if bounds is None or until.topic_id not in (None, bounds.topic_id):
            what = "the topic is gone" if bounds is None else f"the topic was created anew (id {bounds.topic_id})"
            losses.report(
                partition, f"offsets {begin} to {until.offset} are planned, and {what}", "reads nothing of it"
            )
            continue
        if begin < bounds.earliest or until.offset > bounds.latest:
            what = f"offsets {begin} to {until.offset} were asked for, the brokers have {bounds.earliest} to "
            losses.report(partition, what + str(bounds.latest), "reads what is left")
        first, last = max(begin, bounds.earliest), min(until.offset, bounds.latest)
        if first < last:
            ranges.append(OffsetRange(partition[0], bounds.topic_id, partition[1], first, last))
    return ranges


def check_order(start: Positions, end: Positions, snapshot: Snapshot, losses: Losses) -> None:
    """Raises RequestError for a partition that would end before it begins; DataLossError, if that is an error, for one
    that would begin after everything there is."""
    for partition, position in start.items():
        until, bounds = end[partition].offset, snapshot.bounds[partition]
        if position.offset > bounds.latest:
            what = f"offset {position.offset} is to be the first, the brokers have {bounds.earliest} to {bounds.latest}"
            losses.report(partition, what, "reads nothing of it")
        elif position.offset > until:
            message = (
                f"{partition[0]}-{partition[1]} would be read from {position.offset} on and end before it, at {until}"
            )
            raise RequestError(ErrorCode.INVALID_REQUEST, message)


def tasks_at_once(told: int | None, cores: int, partitions: int) -> int:
    """How many tasks may run at once.

    Args:
        told: what the option `penstock.parallelism` says.
        cores: of this machine. The process that plans a read knows nothing of executors elsewhere.
        partitions: that have something to read. Nobody is to get fewer tasks than from the official connector.
    """
    return told or max(cores, partitions)


def task_count(offsets: int, cores: int, *, at_least: int | None = None, task_offsets: int | None = None) -> int:
    """How many tasks are worthwhile for this many offsets.

    Args:
        offsets: how many are to be read in all.
        cores: tasks that may run at once.
        at_least: `minPartitions`.
        task_offsets: `maxRecordsPerPartition`.
    """
    tasks = min(cores, math.ceil(offsets / SPARK_TASK_OFFSETS_WORTHWHILE))
    return max(1, tasks, at_least or 0, math.ceil(offsets / task_offsets) if task_offsets else 0)


def tasks_of(ranges: Sequence[OffsetRange], tasks: int) -> list[list[OffsetRange]]:
    """The ranges laid end to end and cut into so many lists of equal size; fewer only if there are fewer offsets."""
    total = sum(each.size for each in ranges)
    tasks = min(tasks, total)
    packed: list[list[OffsetRange]] = [[] for _ in range(tasks)]
    passed, task = 0, 0
    for each in ranges:
        start = each.start
        while start < each.end:
            room = total * (task + 1) // tasks - passed
            end = min(each.end, start + room)
            packed[task].append(OffsetRange(each.topic, each.topic_id, each.partition, start, end))
            passed += end - start
            start = end
            if passed == total * (task + 1) // tasks:
                task += 1
    return packed
