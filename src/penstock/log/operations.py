"""What a log has done to its files: each an `Operation` that carries all it needs and touches no state of the loop.

All operations of a log share a `Fuse`: once one has failed, those queued behind it fail too instead of writing after a
hole. A `Flush` in the background (after a roll) has an order of its own, so that appends do not wait for it; it may
meet files that are deleted meanwhile, and passes over them.
"""

from __future__ import annotations

import errno
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from penstock.log.disk import Buffer, Disk, Operation, OperationOwner
from penstock.log.names import DELETED, UNFLUSHED_ROLLS
from penstock.log.producer_snapshot import Snapshot
from penstock.log.producer_state import Step
from penstock.log.rolls import format_rolls
from penstock.log.segment import IndexWrite, Segment
from penstock.log.space import is_full, put_back


class Fuse:
    """Blown by the first failed operation of a log. Only operations of one order touch it, so one at a time."""

    __slots__ = ("blown",)

    def __init__(self) -> None:
        self.blown = False


class EarlierFailed(OSError):
    """An operation was not begun, since one before it has failed."""


class LogFiles(Protocol):
    """The files that an operation changes: those of the log `name` in the log directory with this index."""

    directory: int
    name: str
    fuse: Fuse


class OperatedLog(OperationOwner, Protocol):
    """The parts of a log that an operation takes when it is created."""

    @property
    def files(self) -> LogFiles: ...
    @property
    def generation(self) -> int: ...


class LogOperation(Operation):
    """An operation of a log, which fails if an earlier one has."""

    __slots__ = ("fuse",)

    def __init__(self, log: OperatedLog, *, inline: bool = False, order: str = "") -> None:
        files = log.files
        super().__init__(files.directory, order or files.name, log, inline=inline)
        self.fuse = files.fuse

    def run(self, disk: Disk) -> Any:
        if self.fuse.blown:
            raise EarlierFailed(errno.EIO, "an earlier operation of this log failed")
        try:
            return self.work(disk)
        except BaseException:
            self.fuse.blown = True
            raise

    @abstractmethod
    def work(self, disk: Disk) -> Any:
        """Does what `run` does as long as no earlier operation of the log has failed."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The result of a truncation: everything below `offset`, or with `start_over` an empty log that begins there.

    `log_start_offset` is the log's afterwards, `wall_ms` the wall time of the cut.
    """

    offset: int
    log_start_offset: int
    start_over: bool
    wall_ms: int


class Write(LogOperation):
    """The appends of one loop turn to one segment: one system call.

    One that is not `inline`, and fsyncs nothing itself, counts only once a round of fsyncs has followed it
    (`log.group_fsync`). While such a round runs, the file systems of Linux have a write wait for the journal.

    Attributes:
        segment: whose file it goes to; `position` in it.
        chunks: the batches; dropped when the write has completed.
        end_offset: what the log end offset becomes.
        largest: the segment's largest timestamp and its offset with these appends.
        steps: what it reserved of the producer state.
        index_writes: pieces of the indexes to write as well.
        sync_paths: files to fsync after the write, because of flush.messages; empty for none. `sync_directory`: the
            log's, if it must be as well.
    """

    __slots__ = (
        "chunks",
        "end_offset",
        "index_writes",
        "largest",
        "path",
        "position",
        "segment",
        "size_bytes",
        "steps",
        "sync_directory",
        "sync_paths",
    )

    def __init__(self, log: OperatedLog, segment: Segment, inline: bool) -> None:  # one for every turn with an append
        files = log.files
        self.directory = files.directory
        self.order = files.name
        self.owner = log
        self.inline = inline
        self.fuse = files.fuse
        self.segment = segment
        self.path = segment.log_path
        self.position = segment.reserved_bytes
        self.chunks: list[Buffer] = []
        self.size_bytes = 0
        self.end_offset = 0
        self.largest = segment.largest_written
        self.steps: list[Step] = []
        self.index_writes: Sequence[IndexWrite] = ()
        self.sync_paths: Sequence[str] = ()
        self.sync_directory: str | None = None

    def work(self, disk: Disk) -> None:
        try:
            disk.write(self.path, self.position, self.chunks)
            for path, position, entries in self.index_writes:
                disk.write(path, position, [entries])
        except OSError as error:
            put_back(error, disk, [(self.path, self.position), *ends_of(self.index_writes)])
            raise
        for path in self.sync_paths:
            disk.fsync(path)
        if self.sync_directory is not None:
            disk.fsync_directory(self.sync_directory)


class Roll(LogOperation):
    """Closes the indexes of the old segment, saves the producers and makes the new segment's files, all unsynced.

    Attributes: `old` and `new` segment (`old` is None for the first); its `index_writes`; `snapshot`; `rolls`, the
    offsets to be noted (see `log.rolls`), durably, before there is a file of the new segment;
    `stale_paths`: files of no further use, removed on the way.
    """

    __slots__ = ("index_writes", "name", "new", "old", "paths", "rolls", "snapshot", "stale_paths")

    def __init__(
        self,
        log: OperatedLog,
        old: Segment | None,
        new: Segment,
        snapshot: Snapshot,
        stale_paths: Sequence[str],
        *,
        rolls: Sequence[int],
    ) -> None:
        super().__init__(log)
        self.name = log.files.name
        self.old = old
        self.new = new
        self.index_writes = old.take_index_tails() if old else []
        self.snapshot = snapshot
        self.stale_paths = stale_paths
        self.rolls = list(rolls)
        self.paths = new.paths

    def work(self, disk: Disk) -> None:
        for path in self.stale_paths:
            disk.unlink(path)
        try:
            write_ends(disk, self.index_writes, self.snapshot)
            if self.rolls:
                disk.replace(f"{self.name}/{UNFLUSHED_ROLLS}", format_rolls(self.rolls))
            for path in self.paths:
                disk.write(path, 0, [])
        except OSError as error:
            put_back(error, disk, ends_of(self.index_writes), [*snapshot_paths(self.snapshot), *self.paths])
            raise


class Flush(LogOperation):
    """Makes files durable and, unless `directory_path` is None, the names in the log's directory.

    Attributes: `end_offset`, the recovery point when it is done; `segments` that are closed and wholly flushed then;
    `paths` of the files; `generation` of the log; `in_background`, where files may have been deleted meanwhile.
    """

    __slots__ = ("directory_path", "end_offset", "generation", "in_background", "paths", "segments")

    def __init__(
        self, log: OperatedLog, end_offset: int, segments: Sequence[Segment], paths: Sequence[str], *, order: str = ""
    ) -> None:
        super().__init__(log, order=order)
        self.end_offset = end_offset
        self.segments = segments
        self.paths = paths
        self.directory_path: str | None = log.files.name
        self.in_background = bool(order)
        self.generation = log.generation

    def work(self, disk: Disk) -> None:
        for path in self.paths:
            try:
                disk.fsync(path)
            except FileNotFoundError:
                if not self.in_background:
                    raise
        if self.directory_path is not None:
            disk.fsync_directory(self.directory_path)


class ReplaceFile(LogOperation):
    """Replaces a small file durably, such as the leader epochs."""

    __slots__ = ("content", "path")

    def __init__(self, log: OperatedLog, path: str, content: bytes) -> None:
        super().__init__(log)
        self.path = path
        self.content = content

    def work(self, disk: Disk) -> None:
        try:
            disk.replace(self.path, self.content)
        except OSError as error:
            put_back(error, disk, ())
            raise


class DeleteFiles(LogOperation):
    """Takes files out of the log by renaming them to `.deleted`. The result are the new names, to be unlinked later."""

    __slots__ = ("paths",)

    def __init__(self, log: OperatedLog, paths: Sequence[str]) -> None:
        super().__init__(log)
        self.paths = paths

    def work(self, disk: Disk) -> list[str]:
        try:
            return rename_deleted(disk, self.paths)
        except OSError as error:  # what still has its name comes back, and goes with the next retention
            put_back(error, disk, ())
            raise


class Close(Flush):
    """Writes what only memory has of the `active` segment, then flushes: afterwards the files are complete."""

    __slots__ = ("index_writes", "name", "snapshot")

    def __init__(
        self, log: OperatedLog, end_offset: int, closed: Sequence[Segment], active: Segment, snapshot: Snapshot
    ) -> None:
        paths = [path for each in [*closed, active] for path in each.paths]
        super().__init__(log, end_offset, closed, paths)
        self.name = log.files.name
        self.index_writes = active.take_index_tails()
        self.snapshot = snapshot

    def work(self, disk: Disk) -> None:
        try:
            write_ends(disk, self.index_writes, self.snapshot)
        except OSError as error:
            put_back(error, disk, ends_of(self.index_writes), snapshot_paths(self.snapshot))
            raise
        for path in snapshot_paths(self.snapshot):
            disk.fsync(path)
        super().work(disk)
        disk.unlink(f"{self.name}/{UNFLUSHED_ROLLS}")


class UnlinkFiles(Operation):
    """Removes files renamed to `.deleted`, when their delay is over. The owner is the part that emits the operation."""

    __slots__ = ("paths",)

    def __init__(self, directory: int, order: str, owner: OperationOwner, paths: Sequence[str]) -> None:
        super().__init__(directory, order, owner)
        self.paths = paths

    def run(self, disk: Disk) -> None:
        for path in self.paths:
            disk.unlink(path)


def write_ends(disk: Disk, index_writes: Sequence[IndexWrite], snapshot: Snapshot) -> None:
    """Writes what only memory has of a segment that is closed."""
    for path, position, entries in index_writes:
        disk.write(path, position, [entries])
    if snapshot:
        path, content = snapshot
        disk.write(path, 0, [content])


def ends_of(index_writes: Sequence[IndexWrite]) -> list[tuple[str, int]]:
    """Where the index files ended before these writes."""
    return [(path, position) for path, position, _ in index_writes]


def snapshot_paths(snapshot: Snapshot) -> list[str]:
    """The file of a snapshot that is due."""
    return [snapshot[0]] if snapshot else []


def rename_deleted(disk: Disk, paths: Sequence[str]) -> list[str]:
    """Renames those of the files that exist; returns their new names.

    A file that had the name before and waits for its removal keeps `.deleted`, since somebody may read it still; the
    later one becomes `.2.deleted`. A recovery, ours or Apache Kafka's, removes whatever ends so.

    One for whose longer name the directory has no room is removed at once: whoever reads it looks again, and the bytes
    that it took are there for those who wait for room. A crash in between leaves the same segments as one between two
    renames: the files go in the order of `paths`, and an index without its segment is removed by any recovery.
    """
    renamed = []
    for path in paths:
        number, deleted = 1, path + DELETED
        while disk.exists(deleted):
            number += 1
            deleted = f"{path}.{number}{DELETED}"
        try:
            disk.rename(path, deleted)
        except FileNotFoundError:
            continue
        except OSError as error:
            if not is_full(error):
                raise
            disk.unlink(path)
            continue
        renamed.append(deleted)
    return renamed
