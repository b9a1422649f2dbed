"""Group fsync: what is appended counts once it is on disk, and one round of fsyncs in the lane serves all that was
appended to a log directory while the last one ran (`penstock.log.fsync=group`).

A write that has ended stays with its log's writes, held back, as if it were still under way: no offset, size or state
of it is to be seen, and what it reserved is undone if the log fails. An fsync lets it count, whoever made it: a round,
a flush, the flush of a segment that was rolled, the last one of a log that closes. A truncation drops what is held
back, and makes durable what it leaves.

Logs that hold writes back queue here, each once. A round takes them in the order in which they came, up to
`GROUP_FSYNC_FILES_MAX` files; the others, and what is written meanwhile, are the next one's. There is one round at a
time in a directory, so a log waits for the round under way and for those of the logs before it. A round is put together
when operations are taken: what all events of a turn have written goes into the same one. Its files are fsynced at the
same time, as far as the disk does that: file systems with a journal then commit it once for many files.

A record on disk is worth nothing if those before it are not, since a recovery ends a log where its files have a hole.
So a round covers segments, too, that were closed a moment ago and whose own flush is still to come.

A round has an order of its own: appends go on while it runs, in the lane too, since file systems have a write wait for
the journal. If a round fails its directory goes offline, and nothing that waits for it is ever acknowledged; it is not
tried again. Idle costs nothing: without such logs there is no round.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from typing import NamedTuple

from penstock.errors import Report
from penstock.log.disk import Disk, Operation, OperationOwner
from penstock.log.failures import Failures
from penstock.log.file_work import Unsynced
from penstock.log.limits import GROUP_FSYNC_FILES_MAX
from penstock.log.log import Log

ORDER = "group-fsync"


class Fsyncs:
    """How many rounds there were in a directory, and of what.

    Attributes: `rounds`; `files` that they fsynced, and the most of one, `files_max`; `elapsed_ms` of all of them.
    """

    __slots__ = ("elapsed_ms", "files", "files_max", "rounds")

    def __init__(self) -> None:
        self.rounds = 0
        self.files = 0
        self.files_max = 0
        self.elapsed_ms = 0

    def add(self, files: int, elapsed_ms: int) -> None:
        """Counts a round."""
        self.rounds += 1
        self.files += files
        self.files_max = max(self.files_max, files)
        self.elapsed_ms += elapsed_ms


class Part(NamedTuple):
    """What a round of fsyncs does for one log, as it was in this `generation`."""

    log: Log
    generation: int
    unsynced: Unsynced

    @property
    def files(self) -> int:
        """How many it fsyncs, the directory included."""
        return len(self.unsynced.paths) + len(self.unsynced.paths_before) + self.unsynced.names


def part_of(log: Log, files_max: int) -> Part | None:
    """What a round has to do for a log now, in so many files at most and its directory; None for nothing."""
    unsynced = None if log.failed else log.files.unsynced(files_max)
    return None if unsynced is None else Part(log, log.generation, unsynced)


def synced(part: Part, missing: Sequence[str], now_ms: int) -> None:
    """The files of a part are on disk, but for those that were `missing`.

    A log that was cut, closed or given up meanwhile holds none of it back any more. To any other its files are there,
    or they are lost: then its log directory has failed.
    """
    log, unsynced = part.log, part.unsynced
    files = log.files
    if log.failed or part.generation != log.generation or not files.held:
        return
    if missing:
        log.fail(OSError(errno.ENOENT, "the file that was written to is gone", missing[0]), now_ms)
        return
    files.named_to = max(files.named_to, unsynced.newest_base)
    log.count_held(unsynced.end_offset, now_ms)
    if log.segments.closed_are_flushed and not log.closed:
        log.flushed_to(unsynced.end_offset, now_ms)


class FsyncRound(Operation):
    """Makes the `parts` of several logs durable. The result are the paths that name no file any more."""

    __slots__ = ("parts",)

    def __init__(self, directory: int, owner: OperationOwner, parts: Sequence[Part]) -> None:
        super().__init__(directory, ORDER, owner)
        self.parts = parts

    def run(self, disk: Disk) -> Sequence[str]:
        paths = [path for part in self.parts for path in (*part.unsynced.paths_before, *part.unsynced.paths)]
        return disk.fsync_data(paths, [part.log.name for part in self.parts if part.unsynced.names])


class GroupFsync:
    """The rounds of one log directory; the owner of their operations.

    Args: `ready`, called with this when there are operations to take. `bug`, told of what should never be raised.
    Attributes: `counts`, for metrics.
    """

    def __init__(self, directory: int, failures: Failures, *, ready: Callable[[GroupFsync], None], bug: Report) -> None:
        self.counts = Fsyncs()
        self._directory = directory
        self._failures = failures
        self._ready = ready
        self._bug = bug
        self._waiting: dict[Log, None] = {}
        self._round: FsyncRound | None = None
        self._now_ms = 0
        self._began_ms = 0

    @property
    def waiting_logs(self) -> int:
        """How many logs wait for the next rounds."""
        return len(self._waiting)

    def expect(self, log: Log, now_ms: int) -> None:
        """A log has written what counts only on disk."""
        self._now_ms = now_ms
        if not self._waiting and self._round is None:
            self._ready(self)
        self._waiting[log] = None

    def take_operations(self) -> list[Operation]:
        """The next round, if none is under way and logs wait for one."""
        if self._round is not None:
            return []
        parts: list[Part] = []
        files = 0
        while self._waiting and files < GROUP_FSYNC_FILES_MAX:
            log = next(iter(self._waiting))
            part = part_of(log, GROUP_FSYNC_FILES_MAX - files)
            del self._waiting[log]
            if part is not None:
                parts.append(part)
                files += part.files
        if not parts:
            return []
        self._round = FsyncRound(self._directory, self, parts)
        self._began_ms = self._now_ms
        return [self._round]

    # OperationOwner

    def operation_completed(self, operation: Operation, result: Sequence[str], now_ms: int) -> None:
        assert isinstance(operation, FsyncRound)
        parts = operation.parts
        self._next(now_ms)
        self.counts.add(sum(part.files for part in parts), now_ms - self._began_ms)
        missing = frozenset(result)
        for part in parts:
            try:
                synced(part, [path for path in (*part.unsynced.paths, part.log.name) if path in missing], now_ms)
            except Exception as error:  # a bug gives up this log, as one at the end of its own operations does
                part.log.broke(error, now_ms)
                self._bug(f"the fsync of {part.log.name}", error)
            if part.log.files.held:
                self._waiting[part.log] = None

    def operation_failed(self, operation: Operation, error: OSError, now_ms: int) -> None:
        """The disk has lost what was written: the directory goes offline."""
        self._failures.directory_failed(operation.directory, error, now_ms)

    def operation_broke(self, operation: Operation, error: Exception, now_ms: int) -> None:
        """A bug: nobody knows what is on disk, so these logs are given up."""
        assert isinstance(operation, FsyncRound)
        self._next(now_ms)
        for part in operation.parts:
            part.log.broke(error, now_ms)

    def _next(self, now_ms: int) -> None:
        """A round has ended; another follows if there is a log for it when this turn's operations are taken."""
        self._now_ms = now_ms
        self._round = None
        self._ready(self)
