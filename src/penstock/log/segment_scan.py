"""The scan of one segment file for a recovery: how far its batches are good, and what follows from them.

Every batch is checked, also by its CRC, up to the first that is not valid or whose offset cannot be right. Messages of
the formats 0 and 1 count as batches. The result (`SegmentScan`) is plain data: it may be made in another process, by
compiled code (`compiled_segment_scan`), or for many segments at once, and a recovery that is given the scans makes of
them what it would have made of the files.

Of the batches of producers only those are reported on which the state of producers after the segment depends: between
two ends of transactions of a producer, the one that may have begun a transaction, and the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from penstock.errors import CorruptRecordError, InvalidRecordError
from penstock.log.disk import Disk
from penstock.log.index import RELATIVE_OFFSET_MAX
from penstock.log.limits import RECOVERY_CHUNK_BYTES, RECOVERY_PRODUCER_BATCHES_MAX
from penstock.log.loading import marker_of
from penstock.log.names import LOG, file_name
from penstock.log.producer_state import Marker
from penstock.log.segment import Segment
from penstock.records.batch import (
    HEADER_BYTES,
    OLD_HEADER_BYTES,
    BatchHeader,
    check_crc,
    is_old_message,
    read_entry,
    read_old_header,
)

Scanned = tuple[int, BatchHeader, memoryview]
"""A batch as a scan finds it: its position in the file, its header and its bytes."""
NO_LEADER_EPOCH = -1


@dataclass(frozen=True, slots=True)
class SegmentToScan:
    """A segment file, and what the scan of it needs to know.

    Attributes:
        name: of the log.
        following: the base offset of the next segment, if there is one.
        account_from: batches that end before this offset are accounted for in the state of producers.
        rewrite_from: what is read at or above it is written again (see `recovery.recover_log`).
    """

    name: str
    base_offset: int
    size_bytes: int
    following: int | None
    index_interval_bytes: int
    account_from: int
    rewrite_from: int | None = None

    @property
    def path(self) -> str:
        return f"{self.name}/{file_name(self.base_offset, LOG)}"


@dataclass(frozen=True, slots=True)
class SegmentScan:
    """The findings of a scan.

    Attributes:
        valid_bytes: up to where the file is good. next_offset: the offset after the last good batch.
        offset_index, time_index: the content of these files; None if that has been written.
        epochs: each leader epoch that is newer than all before it in the segment, and the offset that it begins at.
        doubtful: the position of the first batch that is to be written again.
    """

    valid_bytes: int
    next_offset: int
    offset_index: bytes | None
    time_index: bytes | None
    epochs: Sequence[tuple[int, int]]
    doubtful: int | None = None


class ProducerBatch(NamedTuple):
    """A batch of a producer, and the end of a transaction that it is, if it is one."""

    header: BatchHeader
    marker: Marker | None


Account = Callable[[Sequence[ProducerBatch]], None]
"""Takes the batches of producers in the order of their offsets, some at a time."""
Scan = Callable[[Disk, SegmentToScan, Account], SegmentScan]
"""Scans a segment. Raises OSError as the disk does."""


class ProducerBatches:
    """Picks the batches on which the state of producers depends, and hands them on, many at once."""

    def __init__(self, account: Account, account_from: int) -> None:
        self._account = account
        self._account_from = account_from
        self._picked: list[ProducerBatch] = []
        self._begun: dict[int, ProducerBatch] = {}
        self._last: dict[int, ProducerBatch] = {}

    def add(self, header: BatchHeader, marker: Marker | None) -> None:
        """Takes a batch of a producer. They come in the order of their offsets."""
        if header.last_offset < self._account_from:
            return
        producer_id, batch = header.producer_id, ProducerBatch(header, marker)
        if not header.is_control:
            self._last[producer_id] = batch
            if header.is_transactional:
                self._begun.setdefault(producer_id, batch)
        elif marker is not None:
            self._pick(producer_id)
            self._picked.append(batch)
        if len(self._picked) + len(self._begun) + len(self._last) >= RECOVERY_PRODUCER_BATCHES_MAX:
            self.finish()

    def finish(self) -> None:
        """Hands on what there is."""
        for producer_id in list(self._last):
            self._pick(producer_id)
        self._picked.sort(key=offset_of_batch)
        picked, self._picked = self._picked, []
        self._account(picked)

    def _pick(self, producer_id: int) -> None:
        begun, last = self._begun.pop(producer_id, None), self._last.pop(producer_id, None)
        if begun is not None and begun is not last:
            self._picked.append(begun)
        if last is not None:
            self._picked.append(last)


def offset_of_batch(batch: ProducerBatch) -> int:
    return batch.header.base_offset


def scan_segment(disk: Disk, wanted: SegmentToScan, account: Account) -> SegmentScan:
    """The scan in plain Python. See `Scan`."""
    base = next_offset = wanted.base_offset
    segment = Segment(wanted.name, base, 0)
    producers = ProducerBatches(account, wanted.account_from)
    epochs: list[tuple[int, int]] = []
    latest_epoch, doubtful = NO_LEADER_EPOCH, None
    for position, header, data in in_order(scan(disk, wanted.path, wanted.size_bytes), base, wanted.following):
        if header.last_offset - base > RELATIVE_OFFSET_MAX:
            break
        next_offset = header.next_offset
        if doubtful is None and wanted.rewrite_from is not None and next_offset > wanted.rewrite_from:
            doubtful = position
        segment.reserve(header.size_bytes, header.last_offset, header.max_timestamp_ms, wanted.index_interval_bytes)
        if header.leader_epoch > latest_epoch:
            latest_epoch = header.leader_epoch
            epochs.append((latest_epoch, header.base_offset))
        if header.has_producer_id:
            producers.add(header, marker_of(data, header) if header.is_control else None)
        assert segment.reserved_bytes == position + header.size_bytes
    segment.seal()
    producers.finish()
    indexes = bytes(segment.offset_index.tail), bytes(segment.time_index.tail)
    return SegmentScan(segment.reserved_bytes, next_offset, *indexes, epochs, doubtful)


def in_order(batches: Iterable[Scanned], next_offset: int, following: int | None) -> Iterator[Scanned]:
    """The batches from `next_offset` on, up to the first whose base offset cannot be right.

    No CRC covers a base offset. One that goes back is wrong; one that leaves a gap is, too, if the batch after it goes
    back into that gap, or if the segment that follows begins there. Then it may be right, but belong to a later
    segment. A segment that begins further back says nothing: it may have been deleted once, and a power failure brought
    it back.
    """
    after_gap: Scanned | None = None
    for batch in batches:
        base_offset = batch[1].base_offset
        if after_gap is not None:
            if next_offset <= base_offset < after_gap[1].next_offset:
                return
            yield after_gap
            next_offset, after_gap = after_gap[1].next_offset, None
        if base_offset < next_offset:
            return
        if base_offset > next_offset:
            if following is not None and next_offset <= following <= base_offset:
                return
            after_gap = batch
            continue
        yield batch
        next_offset = batch[1].next_offset
    if after_gap is not None and not (following is not None and next_offset <= following < after_gap[1].next_offset):
        yield after_gap


def scan(disk: Disk, path: str, size_bytes: int) -> Iterator[Scanned]:
    """Position, header and bytes of every valid batch from the start of a file to the first that is not."""
    position = 0
    chunk, chunk_start = memoryview(b""), 0
    while position + OLD_HEADER_BYTES <= size_bytes:
        at = position - chunk_start
        if at + HEADER_BYTES > len(chunk):
            chunk, chunk_start, at = memoryview(disk.read(path, position, RECOVERY_CHUNK_BYTES)), position, 0
        try:
            header = read_entry(chunk, at)
            if position + header.size_bytes > size_bytes or header.last_offset_delta < 0:
                return
            if at + header.size_bytes > len(chunk):
                wanted = max(RECOVERY_CHUNK_BYTES, header.size_bytes)
                chunk, chunk_start, at = memoryview(disk.read(path, position, wanted)), position, 0
            check_crc(chunk, at, header)
        except (CorruptRecordError, InvalidRecordError):
            return
        yield position, header, chunk[at : at + header.size_bytes]
        position += header.size_bytes


def is_old_at(disk: Disk, path: str, position: int, size_bytes: int) -> bool:
    """Whether a valid message of format 0 or 1 is at this place of a file."""
    header = read_old_header(disk.read(path, position, OLD_HEADER_BYTES))
    if header is None or position + header.size_bytes > size_bytes:
        return False
    return is_old_message(disk.read(path, position, header.size_bytes))
