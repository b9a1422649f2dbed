"""Deleted files keep another name for `file.delete.delay.ms`, for those who still read them; then they are removed."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.log.deadlines import Deadlines
from penstock.log.directory_operations import RemoveDirectory
from penstock.log.disk import Operation
from penstock.log.operations import UnlinkFiles
from penstock.log.outbox import Outbox
from penstock.log.replica import Replica
from penstock.log.table import ReplicaTable


class Removals:
    """Files and directories that are to be removed later."""

    def __init__(self, table: ReplicaTable, deadlines: Deadlines, outbox: Outbox) -> None:
        self._table = table
        self._deadlines = deadlines
        self._outbox = outbox
        self._removals: dict[int, Operation] = {}
        self._removal = 0
        self._waiting: set[tuple[int, str]] = set()

    def unlink_later(self, replica: Replica, paths: Sequence[str], now_ms: int) -> None:
        """Removes a log's files that were renamed to `.deleted`, after the delay."""
        index = replica.directory.index
        unlink = UnlinkFiles(index, f"{replica.name}/unlink", self._outbox, paths)
        self._waiting.update((index, path) for path in paths)
        self._remove_later(replica.topic, unlink, now_ms)

    def left_over(self, directory: int, paths: Sequence[str]) -> list[str]:
        """The paths that a process which has ended has left: all but those that are to be removed later."""
        return [path for path in paths if (directory, path) not in self._waiting]

    def remove_later(self, directory: int, name: str, topic: str, now_ms: int) -> None:
        """Removes a directory that was renamed to `-delete`, after the delay."""
        self._remove_later(topic, RemoveDirectory(directory, self._outbox, name), now_ms)

    def remove(self, directory: int, name: str) -> None:
        """Removes a directory now."""
        self._outbox.emit(RemoveDirectory(directory, self._outbox, name), self._removed)

    def stop(self) -> None:
        """Removes all waiting files at once, before a clean stop."""
        for number in list(self._removals):
            self._remove_now(number)

    def _remove_later(self, topic: str, operation: Operation, now_ms: int) -> None:
        self._removal += 1
        number = self._removal
        self._removals[number] = operation
        delay_ms = self._table.topic_config(topic).file_delete_delay_ms
        self._deadlines.at(now_ms + delay_ms, lambda _: self._remove_now(number))
        if self._table.stopping:
            self._remove_now(number)

    def _remove_now(self, number: int) -> None:
        operation = self._removals.pop(number, None)
        if operation is not None:
            self._outbox.emit(operation, self._removed)

    def _removed(self, operation: Operation, result: None, now_ms: int) -> None:
        self._deadlines.seen(now_ms)
        if isinstance(operation, UnlinkFiles):
            self._waiting.difference_update((operation.directory, path) for path in operation.paths)
