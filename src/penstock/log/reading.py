"""The part of a log that readers see: offsets to slices, times to offsets, aborted transactions.

Offsets at which appends and reads ended are remembered with their positions, so a consumer that goes on where it was,
or that waits at the end, needs no look-up at all; others find their batch through the indexes (`penstock.log.lookup`).
"""

from __future__ import annotations

from bisect import bisect_right

from penstock.config.limits import POSITION_HINTS_MAX
from penstock.errors import ErrorCode, RequestError
from penstock.log.disk import Disk, FileSlice
from penstock.log.lookup import FoundOffset, cut, first_at_time, first_of_max_time, locate, places
from penstock.log.results import AbortedTransaction, LogRead
from penstock.log.segment import Segment

Hints = dict[int, tuple[int, int]]
"""Offset -> (base offset of the segment, position) of the first batch that ends at or after it."""


def remember(hints: Hints, offset: int, place: tuple[int, int]) -> None:
    """Adds a hint; the oldest one makes room."""
    hints[offset] = place
    if len(hints) > POSITION_HINTS_MAX:
        del hints[next(iter(hints))]


class ReadableLog:
    """What reading a log needs of it. `penstock.log.log.Log` documents the attributes.

    `ends` are hints from the latest appends, `hints` from the latest reads.
    """

    __slots__ = (
        "bases",
        "disk",
        "ends",
        "hints",
        "log_end_offset",
        "log_start_offset",
        "name",
        "segments",
        "truncating",
    )

    disk: Disk
    name: str
    segments: list[Segment]
    bases: list[int]
    log_start_offset: int
    log_end_offset: int
    truncating: bool
    ends: Hints
    hints: Hints

    def read(
        self, offset: int, max_bytes: int, upper_offset: int | None = None, *, at_least_one: bool = True
    ) -> LogRead:
        """Whole batches from the one that holds `offset`, ending before `upper_offset` (the log end if None).

        At most `max_bytes`, of one segment; the first batch comes whole even if it is larger when `at_least_one`.
        `upper_offset` must be a batch boundary (high watermark, last stable offset). Empty at the end.
        Raises RequestError(OFFSET_OUT_OF_RANGE) below the log start or above the log end; may raise NotResident.
        """
        end_offset = self.log_end_offset
        if not self.log_start_offset <= offset <= end_offset:
            raise RequestError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.name} has offsets {self.log_start_offset} to {end_offset}, not {offset}",
            )
        if upper_offset is None or upper_offset > end_offset:
            upper_offset = end_offset
        number = max(bisect_right(self.bases, offset) - 1, 0)
        while offset < upper_offset and number < len(self.segments):
            segment = self.segments[number]
            start = self._position(segment, offset)
            end, next_offset = self._end(number, upper_offset)
            if start < end:
                return self._slice(segment, (start, end, next_offset), offset, max_bytes, at_least_one)
            number += 1
            if number < len(self.segments) and self.bases[number] >= upper_offset:
                break
        return LogRead([], 0, offset, -1, -1)

    def _slice(
        self, segment: Segment, extent: tuple[int, int, int], offset: int, max_bytes: int, at_least_one: bool
    ) -> LogRead:
        """The batches of an extent (start, end, the offset at the end) within the limit of bytes."""
        start, end, next_offset = extent
        size_bytes = end - start
        if size_bytes > max_bytes:
            size_bytes, next_offset = cut(self.disk, segment, start, max_bytes, end)
            if not size_bytes:
                first = next(places(self.disk, segment.log_path, start, end))
                if not at_least_one:
                    return LogRead([], 0, offset, segment.base_offset, start, first.size_bytes)
                size_bytes, next_offset = first.size_bytes, first.last_offset + 1
        remember(self.hints, next_offset, (segment.base_offset, start + size_bytes))
        piece = FileSlice(self.disk.directory, segment.log_path, start, size_bytes)
        return LogRead([piece], size_bytes, next_offset, segment.base_offset, start)

    def _position(self, segment: Segment, offset: int) -> int:
        """Position of the first batch of the segment that ends at or after `offset`; its size if there is none."""
        if offset <= segment.base_offset:
            return 0
        hint = self.ends.get(offset) or self.hints.get(offset)
        if hint is not None and hint[0] == segment.base_offset:
            return hint[1]
        place = locate(self.disk, segment, offset)
        return segment.size_bytes if place is None else place.position

    def _end(self, number: int, upper_offset: int) -> tuple[int, int]:
        """(position, offset) at which readers of a segment must stop."""
        segment = self.segments[number]
        if number + 1 < len(self.bases) and self.bases[number + 1] <= upper_offset:
            return segment.size_bytes, self.bases[number + 1]
        if upper_offset == self.log_end_offset and not self.truncating:
            return segment.size_bytes, upper_offset
        return self._position(segment, upper_offset), upper_offset

    def read_bytes(self, offset: int, max_bytes: int, upper_offset: int | None = None) -> bytes:
        """As `read`, but the bytes themselves; for logs that are read by their own node. May raise NotResident."""
        found = self.read(offset, max_bytes, upper_offset)
        return b"".join(self.disk.read(piece.path, piece.position, piece.length) for piece in found.slices)

    def offset_for_timestamp(self, timestamp_ms: int) -> FoundOffset | None:
        """The first record with at least this timestamp, or None. Exact, inside compressed batches too.

        The caller compares the offset found with the high watermark or last stable offset. May raise NotResident.
        """
        for segment in self.segments:
            if segment.size_bytes and segment.retention_time_ms(self.disk) >= timestamp_ms:
                found = first_at_time(self.disk, segment, timestamp_ms, self.log_start_offset)
                if found is not None:
                    return found if found.offset < self.log_end_offset else None
        return None

    def offset_of_max_timestamp(self) -> FoundOffset | None:
        """The first record with the largest timestamp of the log (ListOffsets -3), or None. May raise NotResident."""
        written = [segment for segment in self.segments if segment.size_bytes]
        latest = max(written, key=lambda segment: segment.largest(self.disk)[0], default=None)
        return None if latest is None else first_of_max_time(self.disk, latest)

    def aborted_transactions(self, offset: int, upper_offset: int) -> list[AbortedTransaction]:
        """Aborted transactions that overlap [offset, upper_offset). May raise NotResident."""
        found = []
        for segment in self.segments[max(bisect_right(self.bases, offset) - 1, 0) :]:
            for aborted in map(AbortedTransaction._make, segment.aborted_index.all(self.disk)):
                if aborted.last_offset >= offset and aborted.first_offset < upper_offset:
                    found.append(aborted)
                if aborted.last_stable_offset >= upper_offset:
                    return found
        return found
