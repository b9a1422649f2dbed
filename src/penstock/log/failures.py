"""A log directory fails: it goes offline with all its logs, until the next start. A single log with unusable files, or
whose state a bug has left unknown, goes offline alone.
"""

from __future__ import annotations

from collections.abc import Callable
from errno import EIO

from penstock.errors import StorageError
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

    def replica_broken(self, replica: Replica, error: StorageError, now_ms: int) -> None:
        """Takes one log offline, whose files are unusable."""
        replica.state = State.BROKEN
        replica.error = error
        self._report(LogBroken(replica.name, str(error)))
        replica.done(now_ms)

    def log_failed(self, log: Log, error: OSError, now_ms: int) -> None:
        """The file system failed an open log."""
        self._listener.log_failed(log, error, now_ms)
        self.directory_failed(log.disk.directory, error, now_ms)

    def log_broke(self, replica: Replica, log: Log, error: Exception, now_ms: int) -> None:
        """A bug: an open log no longer knows its own state. Its files are left as they are, to be recovered."""
        del self._table.open[log.name]
        replica.log = None
        why = StorageError(f"{log.name} is given up after a bug: {error!r}")
        self.replica_broken(replica, why, now_ms)
        self._listener.log_failed(log, OSError(EIO, str(why)), now_ms)

    def directory_failed(self, index: int, error: OSError, now_ms: int) -> None:
        """Takes a directory offline: its logs are forgotten, and whoever waits for one of them is told."""
        table, directory = self._table, self._table.directories[index]
        if directory.error is not None:
            return
        directory.error = error
        said = NotStoppedCleanly if table.stopping and is_full(error) else DirectoryFailed
        self._report(said(directory.path, error))
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
