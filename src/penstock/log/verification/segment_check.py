"""One segment: its batches in one pass over its file, and its indexes held against them on the way.

`LogWalk` is what goes on from one segment to the next: the offset that comes next, the leader epoch, the transactions
that are open, and the figures.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.log.index import RELATIVE_OFFSET_MAX
from penstock.log.names import ABORTED_INDEX, LOG, OFFSET_INDEX, SWAP, TIME_INDEX, file_name
from penstock.log.verification.batches import End, SeenBatch, seen_batches
from penstock.log.verification.indexes import (
    ABORTED_ENTRY,
    OFFSET_ENTRY,
    TIME_ENTRY,
    AbortedIndexCheck,
    OffsetIndexCheck,
    TimeIndexCheck,
    read_entries,
)
from penstock.log.verification.inspection import Inspection
from penstock.records.batch import NO_LEADER_EPOCH, BatchHeader
from penstock.records.control import ControlType


@dataclass(slots=True)
class LogWalk:
    """See the module's head.

    Attributes:
        next_offset: after the last batch so far.
        latest_epoch: of the batches so far.
        epoch_of: the leader epoch of an offset by the log's checkpoint, -1 if that does not say; None without one.
        data_from: where the open transaction of each producer has its first data.
        gaps: first and last of offsets that no batch has, the first ones of these; gap_count: of all.
        last_gap_end: the offset after the last gap; last_base_offset: of the last batch.
        was_compacted: batches that a cleaner has changed are in it.
        is_whole: the last segment so far is batches up to the end of its file.
    """

    next_offset: int
    epoch_of: Callable[[int], int] | None = None
    latest_epoch: int = NO_LEADER_EPOCH
    data_from: dict[int, int] = field(default_factory=dict)
    gaps: list[tuple[int, int]] = field(default_factory=list)
    gap_count: int = 0
    last_gap_end: int = -1
    last_base_offset: int = -1
    was_compacted: bool = False
    segments: int = 0
    batches: int = 0
    records: int = 0
    old_messages: int = 0
    is_whole: bool = True

    def skip_to(self, offset: int) -> None:
        """The next batch begins at `offset`; what lies between is missing."""
        if offset > self.next_offset:
            self.gap_count += 1
            self.last_gap_end = offset
            if len(self.gaps) < GAPS_LISTED:
                self.gaps.append((self.next_offset, offset - 1))


GAPS_LISTED = 20


class SegmentCheck:
    """Checks one segment. `following` is where the next one begins, None in the last, which a broker may append to."""

    def __init__(self, at: Inspection, base_offset: int, following: int | None, walk: LogWalk) -> None:
        self.at = at
        self.base_offset = base_offset
        self.following = following
        self.findings = findings = at.findings
        self.walk = walk
        self.is_written = at.is_written and following is None
        self.file = file_name(base_offset, LOG)
        self.offsets = OffsetIndexCheck(
            file_name(base_offset, OFFSET_INDEX), base_offset, self._entries(OFFSET_INDEX), findings
        )
        self.times = TimeIndexCheck(
            file_name(base_offset, TIME_INDEX), base_offset, self._entries(TIME_INDEX), findings
        )
        aborted = file_name(base_offset, ABORTED_INDEX)
        may_lack = self.is_written or aborted + SWAP in at.files
        self.aborted = AbortedIndexCheck(aborted, self._entries(ABORTED_INDEX), findings, may_lack=may_lack)

    def _entries(self, suffix: str) -> list[tuple[int, ...]]:
        file = file_name(self.base_offset, suffix)
        if file in self.at.files:
            data = self.at.read(file)
            return [] if data is None else read_entries(file, data, ENTRIES[suffix], self.findings)
        if suffix != ABORTED_INDEX:
            if file + SWAP in self.at.files:
                self.findings.note(file, "it still has the name that it had before a swap; the next start ends that")
            elif self.following is None and not self.at.size(self.file):
                self.findings.note(
                    file, "it is missing, as after a kill in the middle of a roll; the next start makes it"
                )
            else:
                self.findings.problem(file, "it is missing")
        return []

    def run(self) -> None:
        """Walks the batches. Raises OSError as the disk does."""
        walk, size_bytes = self.walk, self.at.size(self.file)
        if walk.next_offset > self.base_offset:
            self.findings.problem(self.file, f"it begins at {self.base_offset}, before {walk.next_offset}")
        walk.skip_to(self.base_offset)
        walk.next_offset = self.base_offset
        told, end = 0, None
        for seen in seen_batches(self.at.disk, self.at.path(self.file), self.base_offset, size_bytes):
            if isinstance(seen, SeenBatch):
                if seen.header.is_old:
                    self._old_message(seen)
                else:
                    self._batch(seen)
            else:
                end = seen
                self._ends_early(seen)
            if seen.position - told >= TOLD_EVERY_BYTES:
                self.at.progress(seen.position - told)
                told = seen.position
        self.at.progress(size_bytes - told)
        walk.segments += 1
        self._finish(end, size_bytes)

    def _finish(self, end: End | None, size_bytes: int) -> None:
        self.walk.is_whole = end is None
        may_go_on = end is not None or self.is_written
        self.offsets.end(None if not may_go_on else end.position if end is not None else size_bytes, size_bytes)
        if not may_go_on:
            self.aborted.end()
            if file_name(self.base_offset, TIME_INDEX) in self.at.files:
                self.times.end(is_closed=self.following is not None)

    # What is in the file

    def _batch(self, seen: SeenBatch) -> None:
        walk, header = self.walk, seen.header
        place = seen.position
        walk.batches += 1
        walk.records += max(header.record_count, 0)
        if seen.data is None:
            self._problem(place, f"the batch at offset {header.base_offset} is damaged: its checksum is wrong")
        else:
            checked = self.at.records.check(seen.data, header)
            if checked.problem:
                self._problem(place, f"the batch at offset {header.base_offset}: {checked.problem}")
            if checked.note:
                self.findings.note(
                    self.file, f"the batch at offset {header.base_offset}: {checked.note}", f"byte {place}"
                )
            self._transaction(header, None if checked.marker is None else checked.marker.type)
        if header.record_count < header.last_offset_delta + 1 or header.delete_horizon_ms is not None:
            walk.was_compacted = True
        self._offsets(header, place)
        self._epoch(header, place)
        self.offsets.batch(seen.position, header.last_offset)
        self.times.batch(header)

    def _offsets(self, header: BatchHeader, place: int) -> None:
        walk, base_offset, last_offset = self.walk, header.base_offset, header.last_offset
        if last_offset < base_offset:
            self._problem(place, f"the batch at offset {base_offset} ends with {last_offset}")
            last_offset = base_offset
        if base_offset < walk.next_offset:
            before = "the segment begins with" if walk.next_offset == self.base_offset else "it comes after"
            at = walk.next_offset if walk.next_offset == self.base_offset else walk.next_offset - 1
            self._problem(place, f"the batch's offset {base_offset} cannot be: {before} {at}")
        elif last_offset - self.base_offset > RELATIVE_OFFSET_MAX or (
            self.following is not None and last_offset >= self.following
        ):
            self._problem(place, f"the batch's offsets {base_offset} to {last_offset} are not of this segment")
            last_offset = walk.next_offset - 1
        else:
            walk.skip_to(base_offset)
        walk.next_offset = last_offset + 1
        walk.last_base_offset = base_offset

    def _epoch(self, header: BatchHeader, place: int) -> None:
        walk, epoch = self.walk, header.leader_epoch
        known = walk.epoch_of(header.base_offset) if walk.epoch_of is not None else NO_LEADER_EPOCH
        if epoch < walk.latest_epoch:
            self._problem(place, f"the leader epoch {epoch} comes after {walk.latest_epoch}")
        elif known not in (NO_LEADER_EPOCH, epoch) and epoch != NO_LEADER_EPOCH:
            at = header.base_offset
            self._problem(place, f"the batch at offset {at} has leader epoch {epoch}, by the checkpoint it is {known}")
        else:
            walk.latest_epoch = epoch

    def _transaction(self, header: BatchHeader, ends: ControlType | None) -> None:
        if not header.is_transactional or not header.has_producer_id or not header.record_count:
            return
        data_from = self.walk.data_from
        if not header.is_control:
            data_from.setdefault(header.producer_id, header.base_offset)
        elif ends is not None:
            began = data_from.pop(header.producer_id, None)
            if ends is ControlType.ABORT:
                self.aborted.aborted(header.producer_id, header.base_offset, began)

    def _old_message(self, seen: SeenBatch) -> None:
        """A message of format 0 or 1, alone or with others inside."""
        walk, header, place = self.walk, seen.header, seen.position
        walk.old_messages += 1
        who = f"the message of format {header.magic} at offset {header.base_offset}"
        if seen.data is None:
            self._problem(place, f"{who} is damaged: its checksum is wrong")
        else:
            checked = self.at.records.check_message(seen.data, header)
            header = checked.header
            if checked.problem:
                self._problem(place, f"{who}: {checked.problem}")
            if checked.note:
                self.findings.note(self.file, f"{who}: {checked.note}", f"byte {place}")
            walk.records += max(header.record_count, 0)
            walk.was_compacted |= 0 <= header.record_count <= header.last_offset_delta
        self._offsets(header, place)
        self.offsets.batch(place, header.last_offset, header.base_offset)
        self.times.batch(header)

    def _ends_early(self, end: End) -> None:
        if end.is_tail and self.is_written:
            message = f"the tail, which is being written: {end.message}"
            self.findings.unjudged(self.file, message, f"byte {end.position}")
        else:
            self._problem(end.position, end.message)

    def _problem(self, place: int, message: str) -> None:
        self.findings.problem(self.file, message, f"byte {place}")


ENTRIES = {OFFSET_INDEX: OFFSET_ENTRY, TIME_INDEX: TIME_ENTRY, ABORTED_INDEX: ABORTED_ENTRY}
TOLD_EVERY_BYTES = 1 << 22
