"""Segments of a log that are copied whole into another directory, for a future replica that is closed meanwhile.

The files grow under names that end with `.tmp`, which every recovery removes, Penstock's and in effect Kafka's, who
never looks at them. When those of a segment are complete and on disk, they get their names, that of the records last:
indexes without records are nothing. So a crash anywhere leaves whole segments of a beginning of the log.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from penstock.log.disk import Disk, Operation, OperationOwner
from penstock.log.leader_epochs import LeaderEpochs
from penstock.log.log import Log
from penstock.log.names import LEADER_EPOCHS, LOG, SNAPSHOT, file_name
from penstock.log.replica import Replica
from penstock.log.segment import Segment

COPY = ".tmp"
SNAPSHOT_MAX_BYTES = 16 << 20
"""A snapshot has at most `PRODUCER_IDS_PER_PARTITION_MAX` entries of 54 bytes: it is read in one piece."""


class FileToCopy(NamedTuple):
    """A file of a segment. `size_bytes` is None for one that may not be there."""

    name: str
    size_bytes: int | None


class SegmentToCopy(NamedTuple):
    """A closed segment: its files, that of the records last, the offset at its end, and the leader epochs up to there.

    `names_version` pins what the names mean: the cleaner may give them to other files meanwhile.
    """

    files: Sequence[FileToCopy]
    end_offset: int
    leader_epochs: bytes
    size_bytes: int
    names_version: int


def segment_to_copy(source: Log, offset: int | None) -> SegmentToCopy | None:
    """The closed segment that begins at `offset` (None: the first one).

    None if there is none, or if not all of its files are known to be complete.
    """
    place = closed_segment_at(source, offset)
    if place is None:
        return None
    segment, end_offset = place
    base = segment.base_offset
    files = [
        FileToCopy(file_name(end_offset, SNAPSHOT), None),
        *(
            FileToCopy(index.path.rpartition("/")[2], index.entries * index.ENTRY.size)
            for index in (segment.offset_index, segment.time_index, segment.aborted_index)
            if index is not segment.aborted_index or index.entries
        ),
        FileToCopy(file_name(base, LOG), segment.size_bytes),
    ]
    epochs = LeaderEpochs(source.leader_epochs.entries())
    epochs.truncate_from_end(end_offset)
    return SegmentToCopy(files, end_offset, epochs.encode(), segment.size_bytes, source.disk.names_version)


def closed_segment_at(source: Log, offset: int | None) -> tuple[Segment, int] | None:
    """See `segment_to_copy`. Gives the segment and the offset at its end."""
    segments, bases = source.segments.all, source.segments.bases
    place = 0 if offset is None else bisect_left(bases, offset)
    if place + 1 >= len(bases) or (offset is not None and bases[place] != offset):
        return None
    segment, end_offset = segments[place], bases[place + 1]
    return (segment, end_offset) if segment.flushed else None


class RemoveCopies(Operation):
    """Removes what a copy that was broken off has left."""

    __slots__ = ("name",)

    def __init__(self, replica: Replica, owner: OperationOwner) -> None:
        super().__init__(replica.directory.index, replica.name, owner)
        self.name = replica.name

    def run(self, disk: Disk) -> None:
        with suppress(FileNotFoundError):
            for info in disk.list(self.name):
                if info.name.endswith(COPY) and not info.is_directory:
                    disk.unlink(f"{self.name}/{info.name}")


class WriteCopy(Operation):
    """Writes a piece of a file that is copied, at its place: the file and the position. `reader` is for the caller."""

    __slots__ = ("data", "path", "position", "reader")

    def __init__(
        self, replica: Replica, owner: OperationOwner, place: tuple[str, int], data: bytes, reader: object
    ) -> None:
        super().__init__(replica.directory.index, replica.name, owner)
        file, self.position = place
        self.path = f"{replica.name}/{file}{COPY}"
        self.data = data
        self.reader = reader

    def run(self, disk: Disk) -> None:
        if not self.position:
            disk.unlink(self.path)
        disk.write(self.path, self.position, [self.data] if self.data else [])


class PlaceSegment(Operation):
    """Gives the files of a segment that was copied their names, durably. `reader` is for the caller."""

    __slots__ = ("files", "leader_epochs", "name", "reader")

    def __init__(
        self, replica: Replica, owner: OperationOwner, files: Sequence[str], leader_epochs: bytes, reader: object
    ) -> None:
        super().__init__(replica.directory.index, replica.name, owner)
        assert files[-1].endswith(LOG)
        self.name = replica.name
        self.files = files
        self.leader_epochs = leader_epochs
        self.reader = reader

    def run(self, disk: Disk) -> None:
        paths = [f"{self.name}/{file}" for file in self.files]
        for path in paths:
            disk.fsync(path + COPY)
        disk.replace(f"{self.name}/{LEADER_EPOCHS}", self.leader_epochs)
        for path in paths[:-1]:
            disk.rename(path + COPY, path)
        disk.fsync_directory(self.name)
        disk.rename(paths[-1] + COPY, paths[-1])
        disk.fsync_directory(self.name)
