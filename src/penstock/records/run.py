"""A run of batches, as a fetch or a segment gives it, made ready to be decoded: which batches and which bytes.

The part of `records.arrow` that costs per batch, not per record, and is the same for the compiled and the plain
decoder: it walks the headers, checks CRCs, passes over control batches and what the reader's isolation hides, and
decompresses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.errors import CorruptRecordError, InvalidRecordError
from penstock.records.batch import HEADER_BYTES, NO_LEADER_EPOCH, BatchHeader, Buffer, check_crc, headers
from penstock.records.compression import Codec
from penstock.records.reader import MIN_RECORD_BYTES, Decompress, record_bytes

Isolation = Callable[[Buffer, int, BatchHeader], bool]
"""Told of every batch in order (view, position, header); true for one to pass over. See `isolation`."""

MAX_OFFSET = 2**63 - 1
MAX_RUN_BYTES = 2**30
"""Bytes of records in one run at most, so that 32-bit positions hold every column."""


class Skipped(NamedTuple):
    """Offsets that hold no record for the reader, both ends included. `is_control`: a marker; else aborted."""

    first_offset: int
    last_offset: int
    is_control: bool


class SeenEpoch(NamedTuple):
    """The leader epoch of the last batch seen before offset `end`."""

    leader_epoch: int
    end: int


class RunBatch(NamedTuple):
    """A batch to decode. `data[start:end]` are its records; `data` is the whole view, or its own if compressed."""

    header: BatchHeader
    data: Buffer
    start: int
    end: int


@dataclass(slots=True)
class Run:
    """The batches to decode, and how far they go.

    `next_offset` is where the next run begins. `consumed_bytes` is how much of the view is done with: 0 when not even
    the first batch is whole. `epochs` are the leader epochs of the batches up to there, each with its last end.
    """

    batches: list[RunBatch] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    next_offset: int = 0
    consumed_bytes: int = 0
    record_bytes: int = 0
    has_compressed: bool = False
    epochs: list[SeenEpoch] = field(default_factory=list)


class Limits(NamedTuple):
    """The offsets wanted, from `start_offset` to before `end_offset`, and how many bytes of records at most.

    The first batch is taken however large it is.
    """

    start_offset: int
    end_offset: int = MAX_OFFSET
    limit_bytes: int = MAX_RUN_BYTES


def plan_run(view: Buffer, limits: Limits, isolation: Isolation | None, decompress: Decompress) -> Run:
    """Walks the whole batches of `view`. A batch cut off by its end is left for the next run.

    Raises CorruptRecordError or InvalidRecordError for a batch that is broken or whose offsets do not follow the last.
    """
    assert 0 <= limits.start_offset <= limits.end_offset
    assert 0 < limits.limit_bytes <= MAX_RUN_BYTES
    run = Run(next_offset=limits.start_offset)
    previous_end = 0
    for position, header in headers(view):
        check_crc(view, position, header)
        check_offsets(header, previous_end)
        previous_end = header.next_offset
        if header.base_offset >= limits.end_offset:
            run.next_offset = limits.end_offset  # the end lies in a gap
            break
        is_hidden = isolation is not None and isolation(view, position, header)
        if header.last_offset >= limits.start_offset and header.record_count:
            if header.is_control or is_hidden:
                run.skipped.append(skipped(header, limits))
            elif not add(run, run_batch(view, position, header, decompress), limits):
                break
        run.next_offset = max(run.next_offset, min(header.next_offset, limits.end_offset))
        note_epoch(run, header)
        if header.next_offset > limits.end_offset:
            break
        run.consumed_bytes = position + header.size_bytes
    return run


def note_epoch(run: Run, header: BatchHeader) -> None:
    if header.leader_epoch == NO_LEADER_EPOCH:
        return
    if run.epochs and run.epochs[-1].leader_epoch == header.leader_epoch:
        run.epochs.pop()
    run.epochs.append(SeenEpoch(header.leader_epoch, run.next_offset))


def check_offsets(header: BatchHeader, previous_end: int) -> None:
    if header.base_offset < previous_end:
        raise CorruptRecordError(f"offset {header.base_offset} of a batch, where the last ended at {previous_end}")
    if header.last_offset_delta < 0 or header.next_offset > MAX_OFFSET:
        raise CorruptRecordError(f"invalid offset range [{header.base_offset}, {header.last_offset}]")


def skipped(header: BatchHeader, limits: Limits) -> Skipped:
    first_offset = max(header.base_offset, limits.start_offset)
    return Skipped(first_offset, min(header.last_offset, limits.end_offset - 1), header.is_control)


def run_batch(view: Buffer, position: int, header: BatchHeader, decompress: Decompress) -> RunBatch:
    """The batch with its records decompressed. Raises unless so many records can be in so many bytes."""
    if header.compression is Codec.NONE:
        batch = RunBatch(header, view, position + HEADER_BYTES, position + header.size_bytes)
    else:
        data = record_bytes(view, position, header, decompress)
        batch = RunBatch(header, data, 0, len(data))
    size_bytes = batch.end - batch.start
    if not 0 < header.record_count <= size_bytes // MIN_RECORD_BYTES:
        raise InvalidRecordError(f"{header.record_count} records in {size_bytes} bytes at offset {header.base_offset}")
    return batch


def add(run: Run, batch: RunBatch, limits: Limits) -> bool:
    """Adds the batch to the run unless the run is full."""
    size_bytes = batch.end - batch.start
    if run.batches and run.record_bytes + size_bytes > limits.limit_bytes:
        return False
    run.batches.append(batch)
    run.record_bytes += size_bytes
    run.has_compressed |= batch.header.is_compressed
    return True
