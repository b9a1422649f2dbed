"""Batches on their way into a log: what their bytes and headers say before they have a place in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

from penstock.errors import CorruptRecordError, ErrorCode, RequestError
from penstock.log.disk import Buffer
from penstock.log.loading import marker_of
from penstock.log.producer_state import Marker, Origin, ProducerState, Step
from penstock.log.segment import Segment
from penstock.records.batch import BatchHeader, WritableBuffer, check_crc, entries, headers, set_log_append_time

BatchAt = tuple[int, BatchHeader]
"""A batch's position in the bytes given, and its header."""


class Run(NamedTuple):
    """Batches on their way into the log: their bytes, headers, and the offset from which they run on."""

    records: Buffer
    batches: list[BatchAt]
    base_offset: int
    leader_epoch: int
    origin: Origin


def runs_of(view: memoryview, batches: Sequence[BatchAt], max_bytes: int) -> Iterator[Run]:
    """A leader's batches as runs that are appended at once: offsets without gaps, of one leader epoch."""
    begin = 0
    while begin < len(batches):
        start, first = batches[begin]
        end, stop, next_offset = begin, start, first.base_offset
        while end < len(batches):
            position, batch = batches[end]
            grown = position + batch.size_bytes
            if end > begin and (
                batch.base_offset != next_offset
                or batch.leader_epoch != first.leader_epoch
                or grown - start > max_bytes
            ):
                break
            end, stop, next_offset = end + 1, grown, batch.next_offset
        places = [(position - start, batch) for position, batch in batches[begin:end]]
        yield Run(view[start:stop], places, first.base_offset, first.leader_epoch, Origin.REPLICATION)
        begin = end


def follower_batches(
    name: str, view: memoryview, end_offset: int, leader_epoch: int | None, *, check_crcs: bool
) -> list[BatchAt]:
    """A leader's batches that go on where a log ends, up to a later epoch's. Raises as `Log.append_as_follower`.

    Of a compressed message of format 0 or 1 the offsets are known up to the last one only, as in Apache Kafka: that
    one must not be below the end.
    """
    batches = list(entries(view))
    if leader_epoch is not None:
        batches = list(takewhile(lambda each: each[1].leader_epoch <= leader_epoch, batches))
    if batches and batches[0][1].base_offset < end_offset:
        raise RequestError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{name} ends at {end_offset} and was given records from {batches[0][1].base_offset}",
        )
    next_offset = end_offset
    for position, batch in batches:
        if batch.base_offset < next_offset or batch.last_offset_delta < 0:
            raise CorruptRecordError(f"{name} was given offset {batch.base_offset} after {next_offset - 1}")
        if check_crcs:
            check_crc(view, position, batch)
        next_offset = batch.next_offset
    return batches


def whole_batches(records: Buffer) -> list[BatchAt]:
    """The batches that fill `records`. Raises CorruptRecordError if one is cut off."""
    batches = list(headers(records))
    end = batches[-1][0] + batches[-1][1].size_bytes if batches else 0
    if end != len(records):
        raise CorruptRecordError(f"the batch at byte {end} of {len(records)} is cut off")
    return batches


def stamped(records: WritableBuffer, position: int, batch: BatchHeader, append_time_ms: int) -> BatchAt:
    """The batch with the time of its append, in the bytes as well."""
    set_log_append_time(records, position, append_time_ms)
    return position, batch._replace(max_timestamp_ms=append_time_ms)


def reserve_producers(
    producers: ProducerState, records: Buffer, batches: Sequence[BatchAt], base_offset: int, origin: Origin
) -> list[Step]:
    """Applies the batches of a run to their producers' state, or nothing if one of them is refused."""
    steps: list[Step] = []
    offset = base_offset
    for position, batch in batches:
        if batch.producer_id >= 0:
            marker: Marker | None = None
            if batch.is_control:
                marker = marker_of(records, batch, position)
            try:
                steps.append(producers.reserve(batch, offset, origin, marker))
            except RequestError:
                producers.undo(steps)
                raise
        offset += batch.last_offset_delta + 1
    return steps


def add_aborted(segment: Segment, steps: Sequence[Step]) -> None:
    """Adds the aborted transactions that these steps have ended to the index of the segment with their markers."""
    for step in steps:
        if step.completed is not None and step.completed.aborted:
            _, first, last, _, last_stable_offset = step.completed
            segment.aborted_index.append(step.producer_id, first, last, last_stable_offset)
            segment.indexes_grew = True
