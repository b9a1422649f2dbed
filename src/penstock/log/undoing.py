"""Taking back the appends of a log whose disk is full: the log goes on where its files end.

The change that found no room has cut away what it had written (`space.put_back`), and whatever waited behind it fails
without touching a file, since they share a fuse. So the files are as they were after the last change that succeeded.
The log gives back what it had reserved, gets a new fuse, and reads its state from the files, for which no room is
needed; it takes no appends meanwhile, and readers notice nothing. The producers' state is not read: it is kept, with
the steps of the lost appends undone, so that it still knows every batch that may be sent again.

What may be lost besides: entries of an index that only memory had, which makes look-ups slower (those of aborted
transactions are kept: readers of committed records would be given what was aborted); flushes, which are due again;
deletions of segments, whose files come back and go with the next retention.
"""

from __future__ import annotations

from penstock.errors import StorageError
from penstock.log.disk import Disk
from penstock.log.loading import Loaded, load
from penstock.log.log import Log
from penstock.log.operations import Cut
from penstock.log.truncation import Truncate


class Reload(Truncate):
    """Reads a log's state from its files, which have been cut, as a truncation does that has nothing to cut.

    That they end there is durable before anything is appended: otherwise a power failure could bring back what was cut
    away, with offsets and an epoch under which the replicas have other records by then.

    Attributes: `producers`, the state of the producers at the end, which is passed on.
    """

    __slots__ = ("producers",)

    def __init__(self, log: Log, cut: Cut) -> None:
        super().__init__(log, cut, [])
        self.producers = log.producers

    def _cut_and_load(self, disk: Disk) -> tuple[Loaded, list[str]]:
        end_offset = self.cut.offset
        loaded = load(disk, self.name, log_start_offset=0, wall_ms=self.cut.wall_ms)
        if not loaded.segments:
            loaded.log_end_offset = end_offset
        if loaded.log_end_offset != end_offset:
            raise StorageError(f"{self.name} ends at {loaded.log_end_offset} in its files, it should at {end_offset}")
        for path in loaded.segments[-1].paths if loaded.segments else ():
            disk.fsync(path)
        disk.fsync_directory(self.name)  # a segment may have begun just before there was no room
        loaded.producers = self.producers
        return loaded, []


def undo_appends(log: Log, now_ms: int) -> None:
    """Gives back all that a log has reserved, and has its state read from its files. `log.truncating` until then.

    A truncation that was under way is done again, by `cut_again`. What was held back until it is on disk
    (`log.group_fsync`) is in the files, and is cut away: it does not count, and whoever waits for it is told so.
    """
    files = log.files
    held = files.held
    steps = files.begin_anew()
    if log.closed:
        log.closed = log.close_when_cut = False
    log.generation += 1
    log.segments.will_be_cut()
    log.reserved_end_offset = log.log_end_offset
    if log.truncating:
        return
    log.truncating = True
    log.producers.undo(steps)
    log.producers.end_offset = log.log_end_offset
    log.leader_epochs.truncate_from_end(log.log_end_offset)
    cut = Cut(log.log_end_offset, log.log_start_offset, start_over=False, wall_ms=log.wall.at(now_ms))
    if held:
        files.truncated(cut)
        cut_again(log)
    else:
        log.queue(Reload(log, cut))


def cut_again(log: Log) -> None:
    """Begins a truncation that has found no room again (`log.files.cut_to`)."""
    cut = log.files.cut_to
    assert cut is not None, f"{log.name} is not being truncated"
    log.queue(Truncate(log, cut, [], log.files.counted_when_synced(log.config)))
