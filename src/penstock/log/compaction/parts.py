"""A pass in parts: as many new segments as there is room for take the place of the old ones, then comes the next part.

The parts go from the start of the log to its end. Each makes its map of keys anew, from the first dirty offset or, once
it is beyond that, from where it begins: no record is superseded by one before it. All maps end where the first one did.
So no part reads what an earlier one has written, and together they leave what one pass leaves.

What a part leaves is a sound log whatever becomes of the rest: a record goes only if a later one stays, a delete marker
is met when the records before it are gone, and what is known of transactions is carried along. Where the last pass
ended is noted with the last part only. Until then the dirty range counts as dirty: if the node stops, or the log is
cut, a new pass begins at the log's start.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from penstock.errors import StorageError
from penstock.log.compaction.passes import Pass, Rest
from penstock.log.compaction.report import PassReport
from penstock.log.disk import Disk
from penstock.log.limits import CLEANING_PART_BYTES


class NoRoom(StorageError):
    """Not even the next new segment has a place."""


class Room(NamedTuple):
    """What a part may take.

    Attributes: `part_bytes`, for its new segments, but it may make one in any case for which there is room on the disk;
    `spare_bytes`, of which it leaves free; `reserve_bytes`, as it was given.
    """

    part_bytes: int
    spare_bytes: int
    reserve_bytes: int

    @classmethod
    def of(cls, free_bytes: int, reserve_bytes: int, dirty_bytes: int) -> Room:
        """The room in a file system with so many free bytes, of which a reserve is kept free of records.

        A part takes half of what is free, so that there is room for what is appended meanwhile. It takes no more than
        CLEANING_PART_BYTES, or than the dirty range if that is more: reading that range for each part doubles what the
        pass reads, at most. A single segment may take all but the reserve and, where less than that is left, half of
        what is free: a pass makes room on a full disk.
        """
        half_bytes = free_bytes // 2
        return cls(
            min(half_bytes, max(CLEANING_PART_BYTES, dirty_bytes)),
            min(free_bytes - half_bytes, reserve_bytes),
            reserve_bytes,
        )

    def group_bytes(self, disk: Disk) -> int:
        """What a single new segment may take now."""
        return disk.free_bytes() - self.spare_bytes

    def has_place(self, disk: Disk, written_bytes: int, size_bytes: int) -> bool:
        """Whether a part that has written so much has a place for one more new segment."""
        return written_bytes + size_bytes <= self.part_bytes and size_bytes <= self.group_bytes(disk)

    def check(self, disk: Disk, size_bytes: int) -> None:
        """Raises NoRoom if a new segment of this size has no place."""
        if size_bytes > self.group_bytes(disk):
            raise NoRoom(
                f"{disk.free_bytes()} bytes are free, and the next new segment may take up to {size_bytes}; "
                f"{self.enough_bytes(size_bytes)} free bytes would do"
            )

    def enough_bytes(self, size_bytes: int) -> int:
        """What must be free so that a new segment of this size has a place."""
        return min(2 * size_bytes, size_bytes + self.reserve_bytes)


def part_of(work: Pass, rest: Rest) -> Pass | None:
    """The next part of a pass, `work` being what a pass could do now; None if the pass cannot go on.

    It goes no further than the first part, though more may have become cleanable, and not at all if less has.
    """
    if work.first_uncleanable_offset < rest.end_offset or work.first_dirty_offset >= rest.end_offset:
        return None
    end = min(work.first_uncleanable_offset, rest.first_uncleanable_offset)
    return replace(
        work,
        segments=tuple(segment for segment in work.segments if segment.base_offset < end),
        first_uncleanable_offset=end,
        aborted=tuple(each for each in work.aborted if each.first_offset < end),
        rest=rest,
    )


@dataclass(slots=True)
class Figures:
    """Of the parts of a pass that are in use.

    Attributes: `keys` in the largest map; `took_ms` for all, without the time between; `problem`, the first
    that was met.
    """

    before_bytes: int = 0
    after_bytes: int = 0
    removed_records: int = 0
    keys: int = 0
    took_ms: int = 0
    problem: str = ""

    def add(self, report: PassReport, took_ms: int) -> tuple[int, int]:
        """Takes in a part; returns its bytes before and after."""
        before = sum(group.before.bytes for group in report.groups)
        after = sum(group.after.bytes for group in report.groups)
        self.before_bytes += before
        self.after_bytes += after
        self.removed_records += sum(group.removed for group in report.groups)
        self.keys = max(self.keys, report.keys)
        self.took_ms += took_ms
        return before, after
