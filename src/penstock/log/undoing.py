"""Taking back the appends of a log whose disk is full: the log goes on where its files end.

The change that found no room has cut away what it had written (`space.put_back`), and whatever waited behind it fails
without touching a file, since they share a fuse. So the files are as they were after the last change that succeeded.
The log gives back what it had reserved, gets a new fuse, and reads its state from the files, for which no room is
needed; it takes no appends meanwhile, and readers notice nothing. The producers' state is not read: it is kept, with
the steps of the lost appends undone, so that it still knows every batch that may be sent again.

What may be lost besides: entries of an index that only memory had, which makes look-ups slower; flushes, which are due
again; deletions of segments, whose files come back and go with the next retention.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import StorageError
from penstock.log.disk import Disk
from penstock.log.loading import Loaded, load
from penstock.log.operations import LogOperation
from penstock.log.truncation import Truncate

if TYPE_CHECKING:
    from penstock.log.log import Log


class Reload(LogOperation):
    """Reads a log's state from its files, which end at `end_offset`. The result is that state.

    That they end there is durable before anything is appended: otherwise a power failure could bring back what was cut
    away, with offsets and an epoch under which the replicas have other records by then.
    """

    __slots__ = ("end_offset", "name", "wall_ms")

    def __init__(self, log: Log, wall_ms: int) -> None:
        super().__init__(log)
        self.name = log.name
        self.end_offset = log.log_end_offset
        self.wall_ms = wall_ms

    def work(self, disk: Disk) -> Loaded:
        loaded = load(disk, self.name, log_start_offset=0, wall_ms=self.wall_ms)
        if not loaded.segments:
            loaded.log_end_offset = self.end_offset
        if loaded.log_end_offset != self.end_offset:
            raise StorageError(
                f"{self.name} ends at {loaded.log_end_offset} in its files, it should at {self.end_offset}"
            )
        if loaded.segments:
            for path in loaded.segments[-1].paths:
                disk.fsync(path)
        return loaded


def undo_appends(log: Log, now_ms: int) -> None:
    """Gives back all that a log has reserved, and has its state read from its files. `log.truncating` until then.

    A truncation that was under way is done again, by `cut_again`.
    """
    files = log.files
    steps = files.begin_anew()
    if log.closed:
        log.closed = log.close_when_cut = False
    log.generation += 1
    log.segments.forget_positions()
    log.reserved_end_offset = log.log_end_offset
    if log.truncating:
        return
    log.truncating = True
    log.producers.undo(steps)
    log.producers.end_offset = log.log_end_offset
    log.leader_epochs.truncate_from_end(log.log_end_offset)
    log.queue(Reload(log, log.wall.at(now_ms)))


def cut_again(log: Log) -> None:
    """Begins the truncation again that `undo_appends` has found under way (`log.files.cut_to`)."""
    cut = log.files.cut_to
    assert cut is not None, f"{log.name} is not being truncated"
    log.queue(Truncate(log, cut, []))


def reloaded(log: Log, loaded: Loaded, now_ms: int) -> None:
    """Takes the state that `Reload` has read."""
    loaded.producers = log.producers
    loaded.leader_epochs = log.leader_epochs
    loaded.deleted_paths = []  # those wait for their time already
    log.install(loaded)
    log.end_truncation(now_ms)
