"""Deleted files keep another name for `file.delete.delay.ms`, for those who still read them; then they are removed.

Not all at once: the removal of a large file keeps the journal of ext4 busy, and whoever appends meanwhile waits for it.
Each directory has a queue, of which a few files go at a time, the next ones when these are gone and a while has passed.
A clean stop removes what is left in one go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from typing import Any

from penstock.log.deadlines import Deadlines
from penstock.log.directory_operations import RemoveDirectory
from penstock.log.disk import Operation
from penstock.log.limits import FILES_OF_A_LOG, UNLINK_STEP_MS, UNLINKS_PER_STEP
from penstock.log.operations import UnlinkFiles
from penstock.log.outbox import Outbox
from penstock.log.replica import Replica
from penstock.log.table import ReplicaTable


@dataclass(slots=True)
class Removal:
    """The directory `name`, or, unless there are none, these files of it."""

    name: str
    paths: list[str]


@dataclass(slots=True)
class Queue:
    """The removals of one log directory by (time, number).

    Attributes: `paths` of all; `running` operations; `from_ms`, before which none begins; `set_ms`, the next deadline.
    """

    waiting: list[tuple[int, int, Removal]] = field(default_factory=list)
    paths: set[str] = field(default_factory=set)
    running: int = 0
    from_ms: int = 0
    set_ms: int | None = None


class Removals:
    """Files and directories that are to be removed later."""

    def __init__(self, table: ReplicaTable, deadlines: Deadlines, outbox: Outbox) -> None:
        self._table = table
        self._deadlines = deadlines
        self._outbox = outbox
        self._queues = [Queue() for _ in table.directories]
        self._number = 0

    def unlink_later(self, replica: Replica, paths: Sequence[str], now_ms: int) -> None:
        """Removes a log's files that were renamed to `.deleted`, after the delay; those that wait for that stay so."""
        known = self._queues[replica.directory.index].paths
        new = [path for path in paths if path not in known]
        if new:
            self._later(replica.directory.index, replica.topic, Removal(replica.name, new), now_ms)

    def remove_later(self, directory: int, name: str, topic: str, now_ms: int) -> None:
        """Removes a directory that was renamed to `-delete`, after the delay."""
        self._later(directory, topic, Removal(name, []), now_ms)

    def remove(self, directory: int, name: str) -> None:
        """Removes a directory, as soon as it is its turn."""
        self._add(directory, Removal(name, []), self._deadlines.now_ms)
        self._proceed(directory, self._deadlines.now_ms)

    def stop(self) -> None:
        """Removes all waiting files at once, before a clean stop."""
        for directory, queue in enumerate(self._queues):
            waiting, queue.waiting, queue.paths = queue.waiting, [], set()
            for _, _, removal in sorted(waiting):
                self._emit(directory, removal.name, removal.paths, files_max=None)

    def _later(self, directory: int, topic: str, removal: Removal, now_ms: int) -> None:
        if self._table.stopping:
            self._emit(directory, removal.name, removal.paths, files_max=None)
            return
        self._add(directory, removal, now_ms + self._table.topic_config(topic).file_delete_delay_ms)
        self._arm(directory)

    def _add(self, directory: int, removal: Removal, due_ms: int) -> None:
        self._number += 1
        queue = self._queues[directory]
        queue.paths.update(removal.paths)
        heappush(queue.waiting, (due_ms, self._number, removal))

    def _arm(self, directory: int) -> None:
        """Sets the deadline of the next removal, unless some are running: then it is set when they have ended."""
        queue = self._queues[directory]
        if not queue.waiting or queue.running:
            return
        at_ms = max(queue.waiting[0][0], queue.from_ms)
        if queue.set_ms is None or at_ms < queue.set_ms:
            queue.set_ms = at_ms
            self._deadlines.at(at_ms, partial(self._due, directory, at_ms))

    def _due(self, directory: int, set_for_ms: int, now_ms: int) -> None:
        if self._queues[directory].set_ms == set_for_ms:
            self._queues[directory].set_ms = None
            self._proceed(directory, now_ms)

    def _proceed(self, directory: int, now_ms: int) -> None:
        """Has the next few files removed, if it is time."""
        queue = self._queues[directory]
        if self._table.directories[directory].error is not None:
            queue.waiting.clear()
            queue.paths.clear()
        left = UNLINKS_PER_STEP if not queue.running and now_ms >= queue.from_ms else 0
        while left > 0 and queue.waiting and queue.waiting[0][0] <= now_ms:
            removal = queue.waiting[0][2]
            paths = removal.paths[:left]
            del removal.paths[:left]
            queue.paths.difference_update(paths)
            if not removal.paths:
                heappop(queue.waiting)
            self._emit(directory, removal.name, paths, files_max=UNLINKS_PER_STEP)
            left -= len(paths) or FILES_OF_A_LOG
            queue.from_ms = now_ms + UNLINK_STEP_MS
        self._arm(directory)

    def _emit(self, directory: int, name: str, paths: Sequence[str], *, files_max: int | None) -> None:
        operation: UnlinkFiles | RemoveDirectory
        if paths:
            operation = UnlinkFiles(directory, f"{name}/unlink", self._outbox, paths)
        else:
            operation = RemoveDirectory(directory, self._outbox, name, files_max)
        self._queues[directory].running += 1
        self._outbox.emit(operation, self._removed, ended=partial(self._ended, directory))

    def _removed(self, operation: Operation, result: Any, now_ms: int) -> None:
        self._deadlines.seen(now_ms)
        if isinstance(operation, RemoveDirectory) and not result:
            self._add(operation.directory, Removal(operation.name, []), now_ms)
            self._arm(operation.directory)

    def _ended(self, directory: int) -> None:
        self._queues[directory].running -= 1
        self._arm(directory)
