"""The room in a log directory's file system, and who may still take some of it.

Below the *reserve* (`penstock.log.dir.reserve.bytes`) a directory is *full*: it takes no more records of clients or of
leaders elsewhere, while the topics of the coordinators, checkpoints and the metadata log go on. It is full no longer
once a quarter of the reserve more is free, so that it does not change back and forth. If a write finds no room at all,
nobody writes there until the next look, and several looks must find room: a quota, or a lack of inodes, does not show
in the bytes.

Nothing here asks the file system. It is asked at the start and by `MeasureSpace`, see `penstock.log.space_looks`.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock.log.limits import RESERVE_MAX_BYTES, RESERVE_SHARE, SPACE_BACK_LOOKS, SPACE_MARGIN_MIN_BYTES

if TYPE_CHECKING:
    from penstock.log.disk import Disk

RATE_MEMORY_MS = 60_000
"""A write so long ago counts a third of one now in the rate of a directory."""


class NoSpace(OSError):
    """A change of files found no room, and what it had written is cut away again."""


def is_full(error: OSError) -> bool:
    """Whether an error says that there is no room: on the file system, or in somebody's share of it."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def put_back(error: OSError, disk: Disk, places: Iterable[tuple[str, int]], created: Iterable[str] = ()) -> None:
    """Undoes a change that failed for lack of room, and raises NoSpace. Does nothing after any other error.

    Args:
        places: files that were added to, and their lengths before.
        created: files that did not exist before.

    Raises OSError if that is not possible either.
    """
    if not is_full(error):
        return
    for path, size_bytes in places:
        if disk.exists(path) and disk.size(path) > size_bytes:
            disk.truncate(path, size_bytes)
    for path in created:
        disk.unlink(path)
    raise NoSpace(error.errno, error.strerror, error.filename) from error


def reserve_of(wanted_bytes: int | None, total_bytes: int) -> int:
    """The reserve of a file system of this size; `wanted_bytes` is the setting, None for its default."""
    return min(RESERVE_MAX_BYTES, total_bytes // RESERVE_SHARE) if wanted_bytes is None else wanted_bytes


class Space:
    """What is known of one directory's file system.

    Attributes:
        free_bytes, total_bytes: at the last look; 0 before the first.
        reserve_bytes: what is kept free of records.
        full: it takes no records of clients and leaders.
        exhausted: a write has found no room since the last look, so it is full, for coordinators as well.
        written_bytes: of records, since the start. write_rate: lately, in bytes a second.
        look_due: a look is under way, or its time is set.
    """

    __slots__ = (
        "_looked_ms",
        "_looked_written_bytes",
        "_looks_to_come",
        "exhausted",
        "free_bytes",
        "full",
        "look_due",
        "reserve_bytes",
        "total_bytes",
        "write_rate",
        "written_bytes",
    )

    def __init__(self) -> None:
        self.free_bytes = 0
        self.total_bytes = 0
        self.reserve_bytes = 0
        self.full = False
        self.exhausted = False
        self.written_bytes = 0
        self.write_rate = 0.0
        self.look_due = False
        self._looks_to_come = 0
        self._looked_ms = 0
        self._looked_written_bytes = 0

    @property
    def back_bytes(self) -> int:
        """What must be free before a full directory takes records again."""
        least_bytes = min(SPACE_MARGIN_MIN_BYTES, self.total_bytes // RESERVE_SHARE)
        return self.reserve_bytes + max(self.reserve_bytes // 4, least_bytes)

    def measured(self, free_bytes: int, total_bytes: int, wanted_bytes: int | None, now_ms: int) -> bool:
        """Takes in what a look has found; `wanted_bytes` as in `reserve_of`. Returns whether `full` has changed."""
        self.free_bytes, self.total_bytes = free_bytes, total_bytes
        self.reserve_bytes = reserve_of(wanted_bytes, total_bytes)
        self.exhausted = False
        self._note_rate(now_ms)
        was_full = self.full
        if not was_full:
            self.full = free_bytes < self.reserve_bytes
        elif free_bytes >= self.back_bytes:
            self.full = self._looks_to_come > 0
            self._looks_to_come = max(self._looks_to_come - 1, 0)
        return self.full != was_full

    def ran_out(self) -> bool:
        """A write has found no room. Returns whether `full` has changed."""
        was_full = self.full
        self.full = self.exhausted = True
        self._looks_to_come = SPACE_BACK_LOOKS
        return not was_full

    def _note_rate(self, now_ms: int) -> None:
        elapsed_ms, written_bytes = now_ms - self._looked_ms, self.written_bytes - self._looked_written_bytes
        if elapsed_ms > 0:
            weight = elapsed_ms / (elapsed_ms + RATE_MEMORY_MS)
            self.write_rate += (1000 * written_bytes / elapsed_ms - self.write_rate) * weight
            self._looked_ms, self._looked_written_bytes = now_ms, self.written_bytes
