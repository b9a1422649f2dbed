"""Cutting a log, in the lane: the files first, then its state anew from the files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.log.disk import Disk
from penstock.log.index import Index
from penstock.log.loading import Loaded, listing, load, load_segments
from penstock.log.lookup import locate
from penstock.log.names import LOG, SNAPSHOT, file_name, offset_of
from penstock.log.operations import LogOperation, OperatedLog, rename_deleted
from penstock.log.segment import IndexWrite, Segment


@dataclass(frozen=True, slots=True)
class Cut:
    """What a truncation leaves: everything below `offset`, or with `start_over` an empty log that begins there.

    `log_start_offset` is the log's afterwards.
    """

    offset: int
    log_start_offset: int
    start_over: bool
    now_ms: int
    producer_expiration_ms: int


class Truncate(LogOperation):
    """Cuts the files to `cut` and loads what is left. The result is (state, paths renamed to `.deleted`).

    Segments beyond the cut are renamed, their bytes stay for reads under way; the one around it is truncated in place.
    """

    __slots__ = ("cut", "index_writes", "name")

    def __init__(self, log: OperatedLog, cut: Cut, index_writes: Sequence[IndexWrite]) -> None:
        super().__init__(log)
        self.name = log.name
        self.cut = cut
        self.index_writes = index_writes

    def work(self, disk: Disk) -> tuple[Loaded, list[str]]:
        for path, position, entries in self.index_writes:
            disk.write(path, position, [entries])
        cut = self.cut
        deleted = self._cut_files(disk, load_segments(self.name, listing(disk, self.name), cut.now_ms))
        after = load(
            disk,
            self.name,
            log_start_offset=cut.log_start_offset,
            now_ms=cut.now_ms,
            producer_expiration_ms=cut.producer_expiration_ms,
        )
        after.log_end_offset = cut.offset
        after.producers.end_offset = cut.offset
        return after, deleted

    def _cut_files(self, disk: Disk, segments: Sequence[Segment]) -> list[str]:
        target = self.cut.offset
        kept = [segment for segment in segments if segment.base_offset <= target and not self.cut.start_over]
        doomed = [path for segment in segments[len(kept) :] for path in segment.possible_paths]
        snapshots = [f"{self.name}/{info.name}" for info in disk.list(self.name) if self._is_doomed_snapshot(info.name)]
        deleted = rename_deleted(disk, sorted({*doomed, *snapshots}))
        if kept:
            cut_segment(disk, kept[-1], target)
        else:
            segment = Segment(self.name, target, self.cut.now_ms)
            for path in segment.paths:
                disk.write(path, 0, [])
        return deleted

    def _is_doomed_snapshot(self, file: str) -> bool:
        offset = offset_of(file, SNAPSHOT)
        return offset is not None and (self.cut.start_over or offset > self.cut.offset)


def cut_segment(disk: Disk, segment: Segment, offset: int) -> None:
    """Drops the segment's batches that end at or after `offset`, and their index entries."""
    place = locate(disk, segment, offset)
    if place is None:
        return
    keep_below(disk, segment.offset_index, 0, offset - segment.base_offset)
    keep_below(disk, segment.time_index, 1, offset - segment.base_offset)
    aborted = [entry for entry in segment.aborted_index.all(disk) if entry[2] < offset]
    if len(aborted) < segment.aborted_index.entries:
        disk.truncate(segment.aborted_index.path, len(aborted) * segment.aborted_index.ENTRY.size)
    assert segment.log_path == f"{segment.name}/{file_name(segment.base_offset, LOG)}"
    disk.truncate(segment.log_path, place.position)


def keep_below(disk: Disk, index: Index, column: int, relative_offset: int) -> None:
    """Drops the entries whose offset (in `column`) is `relative_offset` or more."""
    kept = index.settled
    low = 0
    while low < kept:
        middle = (low + kept) // 2
        if index.entry(disk, middle)[column] < relative_offset:
            low = middle + 1
        else:
            kept = middle
    if kept < index.settled:
        disk.truncate(index.path, kept * index.ENTRY.size)
