"""The segments of a log: which there are, where an offset lies in them, and what readers get from them.

Offsets at which appends and reads ended are remembered with their positions, so a consumer that continues where it was,
or waits at the end, needs no look-up; others find their batch through the indexes (`penstock.log.lookup`). Whatever
reads a file may raise NotResident.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from penstock.errors import ErrorCode, RequestError, StorageError
from penstock.log.checked_times import TimesNotChecked, must_be_checked
from penstock.log.damaged_index import DamagedFileError, aborted_from
from penstock.log.disk import Disk, FileSlice
from penstock.log.limits import POSITION_HINTS_MAX, TIMES_CHECKED_AT_ONCE_MAX
from penstock.log.lookup import check_largest, cut, first_at_time, first_of_max_time, locate
from penstock.log.results import AbortedTransaction, LogRead
from penstock.log.retention import UNKNOWN_END_OFFSET, Retention, extents
from penstock.log.segment import Segment
from penstock.log.walks import FoundOffset

Hints = dict[int, tuple[int, int]]
"""Offset -> (base offset of the segment, position) of the first batch that ends at or after it."""


def remember(hints: Hints, offset: int, place: tuple[int, int]) -> None:
    """Adds a hint; the oldest one makes room."""
    hints[offset] = place
    if len(hints) > POSITION_HINTS_MAX:
        del hints[next(iter(hints))]


P = ParamSpec("P")
R = TypeVar("R")
Look = Callable[Concatenate["Segments", P], R]


def again_if_cut(look: Look[P, R]) -> Look[P, R]:
    """A look into the files that, if it goes wrong while these are being cut, is one to be made again."""

    @wraps(look)
    def looking(segments: Segments, /, *arguments: P.args, **named: P.kwargs) -> R:
        try:
            return look(segments, *arguments, **named)
        except (StorageError, FileNotFoundError) as error:
            if not segments.are_being_cut:
                raise
            raise RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"the log is being truncated: {error}") from error

    return looking


class Segments:
    """The segments of one log. While it is being truncated, looks into its files may raise RequestError.

    Attributes:
        all: oldest first, the last one active; empty until a new log has its first file.
        bases: their base offsets.
        are_being_cut: a truncation is under way, and the files may have less than is known of them here.
        ends, hints: positions remembered from the latest appends and from the latest reads.
    """

    __slots__ = ("all", "are_being_cut", "bases", "disk", "ends", "hints")

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.all: list[Segment] = []
        self.bases: list[int] = []
        self.are_being_cut = False
        self.ends: Hints = {}
        self.hints: Hints = {}

    @property
    def newest_base(self) -> int:
        """The base offset of the active segment; -1 if there is none."""
        return self.bases[-1] if self.bases else -1

    @property
    def sound(self) -> Sequence[Segment]:
        """All of them, unless their files are being cut."""
        return () if self.are_being_cut else self.all

    @property
    def closed_are_flushed(self) -> bool:
        """Whether all but the active one are wholly on disk; they are flushed in their order."""
        return len(self.all) < 2 or self.all[-2].flushed

    def replace(self, segments: Sequence[Segment], flushed_offset: int, end_offset: int) -> None:
        """Replaces all segments of the log, which ends at `end_offset`; what is below `flushed_offset` is durable.

        Aborted transactions that only memory knew of stay known.
        """
        before = {segment.base_offset: segment.aborted_index for segment in self.all}
        for segment in segments:
            known = before.get(segment.base_offset)
            if known is not None and known.tail:
                segment.aborted_index.take_over(known, end_offset)
        self.all = list(segments)
        self.bases = [segment.base_offset for segment in segments]
        for segment, next_base in zip(segments, self.bases[1:], strict=False):
            segment.flushed = next_base <= flushed_offset
        self.are_being_cut = False
        self.forget_positions()

    def begin(self, segment: Segment) -> None:
        """Adds an active segment."""
        self.all.append(segment)
        self.bases.append(segment.base_offset)

    def take_oldest(self, count: int) -> list[Segment]:
        """Removes segments from the log."""
        taken = self.all[:count]
        del self.all[:count], self.bases[:count]
        return taken

    def due(self, rule: Retention, end_offset: int, wall_ms: int) -> list[str]:
        """Why retention removes each of the oldest segments, of a log that ends at `end_offset` (reserved).

        Raises TimesNotChecked for segments whose time indexes are to be checked first, and NotResident.
        """

        def time_ms(place: int) -> int:
            segment = self.all[place]
            found_ms = segment.retention_time_ms(self.disk)
            if must_be_checked(segment, found_ms, rule, wall_ms):
                raise TimesNotChecked(self.disk.directory, self.all[place : place + TIMES_CHECKED_AT_ONCE_MAX])
            return found_ms

        if not self.all[-1].reserved_bytes:
            end_offset = UNKNOWN_END_OFFSET
        return rule.due(
            extents(self.bases, (segment.size_bytes for segment in self.all), end_offset),
            wall_ms,
            time_ms,
        )

    def check_times(self, from_offset: int) -> None:
        """Raises TimesNotChecked for closed segments with records from an offset on whose time indexes nobody has
        checked.
        """
        first = max(bisect_right(self.bases, from_offset) - 1, 0)
        unchecked = [segment for segment in self.all[first:-1] if not segment.largest_is_right]
        if unchecked:
            raise TimesNotChecked(self.disk.directory, unchecked[:TIMES_CHECKED_AT_ONCE_MAX])

    def next_retention_ms(self, rule: Retention) -> int | None:
        """The wall time at which age removes the oldest; None for never."""
        if rule.retention_ms < 0 or not self.size_bytes:
            return None
        return rule.next_ms(self.all[0].retention_time_ms(self.disk))

    def written(self, segment: Segment, end_offset: int) -> None:
        """The records of a segment up to an offset are in its file."""
        remember(self.ends, end_offset, (segment.base_offset, segment.size_bytes))

    def will_be_cut(self) -> None:
        """A truncation begins; `replace` ends it."""
        self.are_being_cut = True
        self.forget_positions()

    def forget_positions(self) -> None:
        """Forgets remembered positions, which may be wrong from now on."""
        self.ends.clear()
        self.hints.clear()

    @property
    def size_bytes(self) -> int:
        """Bytes of all records."""
        return sum(segment.size_bytes for segment in self.all)

    @again_if_cut
    def read(
        self, offset: int, upper_offset: int, max_bytes: int, *, up_to_end: bool, at_least_one: bool = True
    ) -> LogRead:
        """Like `Log.read`, for offsets within the log. `up_to_end`: everything written is below `upper_offset`."""
        bases = self.bases
        for number in range(max(bisect_right(bases, offset) - 1, 0), len(bases)):
            segment = self.all[number]
            start = self._position(segment, offset)
            is_last = number + 1 == len(bases) or bases[number + 1] > upper_offset
            next_offset = upper_offset if is_last else bases[number + 1]
            end = self._position(segment, upper_offset) if is_last and not up_to_end else segment.size_bytes
            if start < end:
                return self._slice(segment, (start, end, next_offset), offset, max_bytes, at_least_one)
            if next_offset >= upper_offset:
                break
        return LogRead([], 0, offset)

    def _slice(
        self, segment: Segment, extent: tuple[int, int, int], offset: int, max_bytes: int, at_least_one: bool
    ) -> LogRead:
        """The batches of an extent (start, end, the offset at the end) within the limit of bytes."""
        start, end, next_offset = extent
        size_bytes = end - start
        if size_bytes > max_bytes:
            size_bytes, next_offset = cut(self.disk, segment, start, max_bytes, end, at_least_one=at_least_one)
            if not size_bytes:
                return LogRead([], 0, offset)
            if next_offset <= offset:
                where = f"{segment.log_path} at byte {start}"
                raise DamagedFileError(f"{where}: offset {offset} should be there, and offset {next_offset} follows")
        remember(self.hints, next_offset, (segment.base_offset, start + size_bytes))
        piece = FileSlice(self.disk.directory, segment.log_path, start, size_bytes, self.disk.names_version)
        return LogRead([piece], size_bytes, next_offset)

    def _position(self, segment: Segment, offset: int) -> int:
        """Position of the first batch of the segment that ends at or after `offset`; its size if there is none."""
        if offset <= segment.base_offset:
            return 0
        hint = self.ends.get(offset) or self.hints.get(offset)
        if hint is not None and hint[0] == segment.base_offset:
            return hint[1]
        place = locate(self.disk, segment, offset)
        return segment.size_bytes if place is None else place.position

    @again_if_cut
    def offset_for_timestamp(self, timestamp_ms: int, from_offset: int) -> FoundOffset | None:
        """The first record from an offset on with at least this timestamp."""
        passed_over: Segment | None = None
        for segment in self.all:
            if not segment.size_bytes:
                continue
            if segment.retention_time_ms(self.disk) < timestamp_ms:
                passed_over = segment
                continue
            found = first_at_time(self.disk, segment, timestamp_ms, from_offset)
            if found is not None:
                if passed_over is not None:  # the record may well be in it, if its index is wrong
                    check_largest(self.disk, passed_over)
                    if passed_over.retention_time_ms(self.disk) >= timestamp_ms:
                        return first_at_time(self.disk, passed_over, timestamp_ms, from_offset) or found
                return found
        return None

    @again_if_cut
    def offset_of_max_timestamp(self) -> FoundOffset | None:
        """The first record with the largest timestamp of the log (ListOffsets -3)."""
        written = [segment for segment in self.all if segment.size_bytes]
        latest = max(written, key=lambda segment: segment.largest_readable(self.disk)[0], default=None)
        return None if latest is None else first_of_max_time(self.disk, latest)

    @again_if_cut
    def aborted_transactions(self, offset: int, upper_offset: int) -> list[AbortedTransaction]:
        """Aborted transactions that overlap [offset, upper_offset)."""
        found = []
        start = max(bisect_right(self.bases, offset) - 1, 0)
        for segment, end_offset in zip(self.all[start:], [*self.bases[start + 1 :], None], strict=False):
            for aborted in map(AbortedTransaction._make, aborted_from(self.disk, segment, offset, end_offset)):
                if aborted.last_offset >= offset and aborted.first_offset < upper_offset:
                    found.append(aborted)
                if aborted.last_stable_offset >= upper_offset:
                    return found
        return found
