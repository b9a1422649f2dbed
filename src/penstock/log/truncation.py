"""Truncating a log, in the lane: first the files, then its state is loaded again from the files."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import StorageError
from penstock.log.disk import Disk
from penstock.log.index import Index
from penstock.log.loading import Loaded, listing, load, load_segments, readable
from penstock.log.lookup import locate
from penstock.log.names import SNAPSHOT, offset_of
from penstock.log.operations import Cut, LogOperation, OperatedLog, ends_of, rename_deleted
from penstock.log.segment import IndexWrite, Segment
from penstock.log.space import put_back


class Truncate(LogOperation):
    """Cuts the files to `cut` and loads what is left. The result is (state, paths renamed to `.deleted`).

    Segments beyond the cut are renamed, their bytes stay for reads under way; the one around it is truncated in place.
    A batch that straddles the cut goes whole, and the log then ends where its batches end: no offsets are left out, so
    that a recovery can tell a segment that lost its tail. If that is before the log start, the log begins anew there.
    The cut is durable before anything is appended, so that a power failure does not bring back what was cut. So are
    the files `unsynced`, of earlier segments, where what is left counts only on disk.
    """

    __slots__ = ("cut", "index_writes", "name", "unsynced")

    def __init__(
        self, log: OperatedLog, cut: Cut, index_writes: Sequence[IndexWrite], unsynced: Sequence[str] = ()
    ) -> None:
        super().__init__(log)
        self.unsynced = unsynced
        self.name = log.files.name
        self.cut = cut
        self.index_writes = index_writes

    def work(self, disk: Disk) -> tuple[Loaded, list[str]] | StorageError:
        """Files that are damaged are a result, too; no operation of this log follows."""
        try:
            with readable(self.name):
                return self._cut_and_load(disk)
        except StorageError as error:
            self.fuse.blown = True
            return error

    def _cut_and_load(self, disk: Disk) -> tuple[Loaded, list[str]]:
        cut = self.cut
        try:
            for path, position, entries in self.index_writes:
                disk.write(path, position, [entries])
            deleted = self._cut_files(disk, cut.offset, start_over=cut.start_over)
            after = self._load(disk)
            if after.log_end_offset < cut.log_start_offset:
                deleted += self._cut_files(disk, cut.log_start_offset, start_over=True)
                after = self._load(disk)
        except OSError as error:  # nothing was added but to indexes; done again, it goes on where it ended
            put_back(error, disk, ends_of(self.index_writes))
            raise
        for path in after.segments[-1].paths:
            disk.fsync(path)
        if self.unsynced:
            disk.fsync_data(self.unsynced)  # it has nothing of those that were cut away
        disk.fsync_directory(self.name)
        return after, deleted

    def _load(self, disk: Disk) -> Loaded:
        """The state by the files; the log itself knows its start and its epochs."""
        cut = self.cut
        return load(disk, self.name, log_start_offset=0, wall_ms=cut.wall_ms)

    def _cut_files(self, disk: Disk, target: int, *, start_over: bool) -> list[str]:
        files = listing(disk, self.name)
        segments = load_segments(self.name, files, self.cut.wall_ms)
        kept = [segment for segment in segments if segment.base_offset <= target and not start_over]
        doomed = {path for segment in segments[len(kept) :] for path in segment.possible_paths}
        for name in files:
            offset = offset_of(name, SNAPSHOT)
            if offset is not None and (start_over or offset > target):
                doomed.add(f"{self.name}/{name}")
        deleted = rename_deleted(disk, sorted(doomed))
        if kept:
            cut_segment(disk, kept[-1], target)
        else:
            segment = Segment(self.name, target, self.cut.wall_ms)
            for path in segment.paths:
                disk.write(path, 0, [])
        return deleted


def cut_segment(disk: Disk, segment: Segment, offset: int) -> None:
    """Drops the segment's batches that end at or after `offset`, and their index entries.

    Apache Kafka up to 3.5 noted offsets within batches in time indexes, so an entry of the first batch that goes may
    have an offset below.
    """
    place = locate(disk, segment, offset)
    if place is None:
        return
    end_offset = min(offset, place.base_offset)
    keep_below(disk, segment.offset_index, 0, end_offset - segment.base_offset)
    keep_below(disk, segment.time_index, 1, end_offset - segment.base_offset)
    aborted = [entry for entry in segment.aborted_index.all(disk) if entry[2] < end_offset]
    if len(aborted) < segment.aborted_index.entries:
        disk.truncate(segment.aborted_index.path, len(aborted) * segment.aborted_index.ENTRY.size)
        disk.fsync(segment.aborted_index.path)
    disk.truncate(segment.log_path, place.position)


def keep_below(disk: Disk, index: Index, column: int, relative_offset: int) -> None:
    """Drops the entries whose offset (in `column`) is `relative_offset` or more."""
    kept = index.written
    low = 0
    while low < kept:
        middle = (low + kept) // 2
        if index.entry(disk, middle)[column] < relative_offset:
            low = middle + 1
        else:
            kept = middle
    if kept < index.written:
        disk.truncate(index.path, kept * index.ENTRY.size)
