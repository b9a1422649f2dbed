"""What a read covers: which partitions, from where to where, and which task reads what.

The brokers are asked once, on the driver. Ranges are then packed into tasks: a large range is split, many small ones
share a task, because a Spark task costs milliseconds and a fetch of a small partition does not.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from penstock.client.client import EARLIEST, LATEST, Client, Partition
from penstock.errors import ErrorCode, PenstockError, RequestError
from penstock.spark.read.options import Offsets, ReadOptions, Timestamps


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


async def partitions_of(client: Client, options: ReadOptions) -> list[Partition]:
    """The partitions that the options choose, sorted. Raises RequestError for a topic that does not exist."""
    if options.assign is not None:
        return sorted((topic, index) for topic, indexes in options.assign.items() for index in indexes)
    if options.pattern is not None:
        names = [name for name in await client.topic_names() if re.fullmatch(options.pattern, name)]
    else:
        names = sorted(set(options.subscribe or ()))
    return [(name, index) for name in names for index in range(len((await client.topic(name)).leaders))]


async def ranges_of(client: Client, options: ReadOptions) -> list[OffsetRange]:
    """The non-empty ranges that a batch read covers.

    Raises:
        RequestError: a topic or partition does not exist.
        DataLossError: an offset asked for lies outside of what the brokers have, and `failOnDataLoss` is on.
    """
    partitions = await partitions_of(client, options)
    if not partitions:
        return []
    earliest = {p: at.offset for p, at in (await client.offsets(partitions, EARLIEST)).items()}
    latest = {p: at.offset for p, at in (await client.offsets(partitions, LATEST, isolation=options.isolation)).items()}
    known = {EARLIEST: earliest, LATEST: latest}
    starts = await _resolve(client, partitions, options.starting, options.starting_ms, known)
    ends = await _resolve(client, partitions, options.ending, options.ending_ms, known)
    ranges = []
    for partition in partitions:
        start, end = starts[partition], ends[partition]
        if start is None:  # no record is as late as the time asked for
            if options.late_start_is_error:
                raise RequestError(
                    ErrorCode.OFFSET_NOT_AVAILABLE,
                    f"{partition[0]}-{partition[1]} has no record at or after the starting time; "
                    "startingOffsetsByTimestampStrategy = latest reads nothing of it instead",
                )
            start = latest[partition]
        end = latest[partition] if end is None else end
        available = (earliest[partition], latest[partition])
        start, end = _within(partition, (start, end), available, options.fail_on_data_loss)
        if start < end:
            topic_id = (await client.topic(partition[0])).topic_id
            ranges.append(OffsetRange(partition[0], topic_id, partition[1], start, end))
    return ranges


def _within(
    partition: Partition, wanted: tuple[int, int], available: tuple[int, int], fail_on_data_loss: bool
) -> tuple[int, int]:
    """The range cut to what the brokers have; DataLossError when something would be cut and must not be."""
    if fail_on_data_loss and (wanted[0] < available[0] or wanted[1] > available[1]):
        raise DataLossError(
            f"{partition[0]}-{partition[1]}: offsets {wanted[0]} to {wanted[1]} were asked for, the brokers have "
            f"{available[0]} to {available[1]}; failOnDataLoss = false reads what is left"
        )
    return max(wanted[0], available[0]), min(wanted[1], available[1])


async def _resolve(
    client: Client,
    partitions: Sequence[Partition],
    offsets: Offsets,
    times: Timestamps | None,
    known: Mapping[int, Mapping[Partition, int]],
) -> dict[Partition, int | None]:
    """An offset a partition; None where a time lies beyond the last record."""
    if times is not None:
        return await _at_times(client, partitions, times)
    if isinstance(offsets, str):
        return dict(known[EARLIEST if offsets == "earliest" else LATEST])
    resolved: dict[Partition, int | None] = {}
    for topic, index in partitions:
        offset = offsets.get(topic, {}).get(index)
        if offset is None:
            raise RequestError(ErrorCode.INVALID_REQUEST, f"no offset is given for {topic}-{index}, which is read")
        resolved[topic, index] = known[offset][topic, index] if offset in known else offset
    return resolved


async def _at_times(client: Client, partitions: Sequence[Partition], times: Timestamps) -> dict[Partition, int | None]:
    by_time: dict[int, list[Partition]] = {}
    for topic, index in partitions:
        timestamp_ms = times if isinstance(times, int) else times.get(topic, {}).get(index)
        if timestamp_ms is None:
            raise RequestError(ErrorCode.INVALID_REQUEST, f"no timestamp is given for {topic}-{index}, which is read")
        by_time.setdefault(timestamp_ms, []).append((topic, index))
    resolved: dict[Partition, int | None] = {}
    for timestamp_ms, some in by_time.items():
        for partition, at in (await client.offsets(some, timestamp_ms)).items():
            resolved[partition] = None if at.offset < 0 else at.offset
    return resolved


def tasks_of(ranges: Sequence[OffsetRange], tasks: int) -> list[list[OffsetRange]]:
    """Packs ranges into at most about `tasks` lists of like size, splitting what is larger than a task's share.

    Largest first into the emptiest list, so one hot partition does not leave the other tasks idle.
    """
    total = sum(each.size for each in ranges)
    if not total:
        return []
    share = math.ceil(total / tasks)
    pieces = []
    for each in filter(lambda each: each.size, ranges):
        parts = math.ceil(each.size / share)
        bounds = [each.start + each.size * part // parts for part in range(parts + 1)]
        pieces += [
            OffsetRange(each.topic, each.topic_id, each.partition, low, high)
            for low, high in itertools.pairwise(bounds)
        ]
    packed: list[list[OffsetRange]] = [[] for _ in range(min(tasks, len(pieces)))]
    loads = [0] * len(packed)
    for piece in sorted(pieces, key=lambda piece: (-piece.size, piece.topic, piece.partition, piece.start)):
        lightest = loads.index(min(loads))
        packed[lightest].append(piece)
        loads[lightest] += piece.size
    return packed
