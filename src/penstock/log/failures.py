"""A log directory fails: it goes offline with all its logs, until the next start. A single log with unusable files, or
whose state a bug has left unknown, goes offline alone.
"""

from __future__ import annotations

from collections.abc import Callable
from errno import EIO

from penstock.errors import StorageError
from penstock.log.directory import LogDirectory
from penstock.log.events import DirectoryFailed, LogBroken, LogEvent, NotStoppedCleanly
from penstock.log.listener import LogListener
from penstock.log.log import Log
from penstock.log.replica import Replica, State
from penstock.log.space import is_full
from penstock.log.table import ReplicaTable


class Failures:
    """Takes logs and directories offline, and tells the operator, the node, and whoever waits for a log."""

    def __init__(self, table: ReplicaTable, report: Callable[[LogEvent], None], listener: LogListener) -> None:
        self._table = table
        self._report = report
        self._listener = listener
        self._unclean: list[LogDirectory] = []

    def replica_broken(self, replica: Replica, error: StorageError, now_ms: int) -> None:
        """Takes one log offline, whose files are unusable."""
        replica.state = State.BROKEN
        replica.error = error
        self._report(LogBroken(replica.name, str(error)))
        replica.done(now_ms)

    def log_failed(self, replica: Replica, log: Log, error: OSError, now_ms: int) -> None:
        """The file system failed an open log. In a clean stop, no room for one keeps no other from being closed: its
        directory is not marked then, and the next start recovers all of it, but the checkpoints say how much is good.
        """
        self._listener.log_failed(log, error, now_ms)
        if not (self._table.stopping and is_full(error)):
            self.directory_failed(log.disk.directory, error, now_ms)
            return
        self._not_stopped_cleanly(replica.directory, error)
        del self._table.open[log.name]
        replica.log = None
        replica.state = State.BROKEN
        replica.done(now_ms)

    def log_broke(self, replica: Replica, log: Log, error: Exception, now_ms: int) -> None:
        """An open log does not know its own state: its files are damaged, or there is a bug. They stay as they are."""
        del self._table.open[log.name]
        replica.log = None
        why = error
        if not isinstance(why, StorageError):
            why = StorageError(f"{log.name} is given up after a bug: {error!r}")
        self.replica_broken(replica, why, now_ms)
        self._listener.log_failed(log, OSError(EIO, str(why)), now_ms)

    def directory_failed(self, index: int, error: OSError, now_ms: int) -> None:
        """Takes a directory offline: its logs are forgotten, and whoever waits for one of them is told."""
        table, directory = self._table, self._table.directories[index]
        if directory.error is not None:
            return
        directory.error = error
        if table.stopping and is_full(error):
            self._not_stopped_cleanly(directory, error)
        else:
            self._report(DirectoryFailed(directory.path, error))
        lost = table.of_directory(directory)
        for replica in lost:
            if replica.is_future:
                del table.futures[replica.key]
            if replica.log is not None:
                table.open.pop(replica.log.name, None)
            replica.log = None
            replica.state = State.BROKEN
        self._listener.directory_failed(index, error, now_ms)
        for replica in lost:
            replica.done(now_ms)
        directory.measured(now_ms)

    def _not_stopped_cleanly(self, directory: LogDirectory, error: OSError) -> None:
        """Says it once."""
        if directory not in self._unclean:
            self._unclean.append(directory)
            self._report(NotStoppedCleanly(directory.path, error))
