"""Operations of the log manager: those that wait until the node takes them, and those under way.

A part emits an operation with the function to call at its end. It is not called for an operation that failed, which
takes its directory offline, or whose directory has failed meanwhile. A part that can do without an operation for a
while says what to do when it found no room; then the directory stays online. Most try again a little later.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

from penstock.errors import Report
from penstock.log.deadlines import Deadlines
from penstock.log.directory import LogDirectory
from penstock.log.disk import Operation
from penstock.log.failures import Failures
from penstock.log.group_fsync import GroupFsync
from penstock.log.limits import SPACE_RETRY_MS
from penstock.log.log import Log
from penstock.log.space import is_full
from penstock.log.table import ReplicaTable

T = TypeVar("T", bound=Operation)
Done = Callable[[T, Any, int], None]
Broke = Callable[[T, Exception, int], None]
NoRoom = Callable[[T, int], None]
Again = Callable[[int], None]


class Callbacks(NamedTuple):
    """The functions to call when an operation has ended."""

    done: Done[Any] | None
    broke: Broke[Any] | None
    ended: Callable[[], None] | None
    no_room: NoRoom[Any] | None
    background: bool


class Outbox:
    """See the module's head. The owner of all operations that it emits.

    Attributes: `waiting`, operations to be taken, and open logs and rounds of fsyncs that have some.
    """

    def __init__(
        self,
        table: ReplicaTable,
        deadlines: Deadlines,
        failures: Failures,
        bug: Report,
        ran_out: Callable[[LogDirectory, OSError, int], None],
    ) -> None:
        self._table = table
        self._ran_out = ran_out
        self._deadlines = deadlines
        self._failures = failures
        self._bug = bug
        self.waiting: list[Operation | Log | GroupFsync] = []
        self._under_way: dict[Operation, Callbacks] = {}
        self._retries: dict[int, tuple[Again, bool]] = {}
        self._retry = 0

    def emit(
        self,
        operation: T,
        done: Done[T] | None = None,
        *,
        broke: Broke[T] | None = None,
        ended: Callable[[], None] | None = None,
        no_room: NoRoom[T] | None = None,
        background: bool = False,
    ) -> None:
        """Has an operation run, whose owner is this outbox.

        Args:
            done: called with its result when it ended well. broke: called when it, or `done`, broke off by a bug.
            ended: called before, however it ended, even if its directory has failed.
            no_room: called when the disk is full, instead of taking the directory offline; not in a clean stop.
            background: a clean stop does not wait for it.
        """
        assert operation.owner is self
        self._under_way[operation] = Callbacks(done, broke, ended, no_room, background)
        self.waiting.append(operation)

    def try_later(self, again: Again, now_ms: int, *, before_stop: bool = False) -> None:
        """Calls `again(now_ms)` a while after a change of files has found no room.

        Nothing is called during a clean stop. What it would wait for is tried `before_stop`, when it begins.
        """
        self._retry += 1
        self._retries[self._retry] = again, before_stop
        self._deadlines.at(now_ms + SPACE_RETRY_MS, partial(self._try_again, self._retry))

    def _try_again(self, retry: int, now_ms: int) -> None:
        again, _ = self._retries.pop(retry, (None, False))
        if again is not None:
            again(now_ms)

    def stop(self, now_ms: int) -> None:
        """A clean stop begins."""
        for retry, (_, before_stop) in list(self._retries.items()):
            if before_stop:
                self._try_again(retry, now_ms)

    def ready(self, rounds: GroupFsync) -> None:
        """Looks for a round of fsyncs when operations are taken next."""
        self.waiting.append(rounds)

    @property
    def quiet(self) -> bool:
        """Whether no operation waits or runs, but in the background."""
        return all(callbacks.background for callbacks in self._under_way.values())

    def take(self) -> list[Operation]:
        """Returns the operations to run now, including those of the open logs, and forgets them."""
        taken: list[Operation] = []
        directories = self._table.directories
        while self.waiting:
            waiting, self.waiting = self.waiting, []
            for item in waiting:
                if isinstance(item, Log):
                    try:
                        taken += item.take_operations()
                    except Exception as error:  # a bug gives up this log, as one at the end of an operation does
                        item.broke(error, self._deadlines.now_ms)
                        self._bug(f"the writes of {item.name}", error)
                elif isinstance(item, GroupFsync):
                    taken += item.take_operations()
                elif directories[item.directory].error is None:
                    taken.append(item)
                else:
                    self._end(item)
                    del self._under_way[item]
        for directory in directories:
            if directory.error is not None:
                return [operation for operation in taken if directories[operation.directory].error is None]
        return taken

    def _end(self, operation: Operation) -> Callbacks:
        callbacks = self._under_way[operation]
        if callbacks.ended is not None:
            self._under_way[operation] = callbacks._replace(ended=None)
            callbacks.ended()
        return callbacks

    # OperationOwner

    def operation_completed(self, operation: Operation, result: Any, now_ms: int) -> None:
        callbacks = self._end(operation)
        if callbacks.done is not None and self._table.directories[operation.directory].error is None:
            callbacks.done(operation, result, now_ms)
        del self._under_way[operation]

    def operation_failed(self, operation: Operation, error: OSError, now_ms: int) -> None:
        """The file system failed; the directory goes offline, unless it is just full."""
        callbacks = self._end(operation)
        directory = self._table.directories[operation.directory]
        bearable = directory.error is None and not self._table.stopping and is_full(error)
        if callbacks.no_room is not None and bearable:
            del self._under_way[operation]
            self._ran_out(directory, error, now_ms)
            callbacks.no_room(operation, now_ms)
            return
        self._failures.directory_failed(operation.directory, error, now_ms)
        del self._under_way[operation]

    def operation_broke(self, operation: Operation, error: Exception, now_ms: int) -> None:
        """A bug: ends what the operation was for."""
        callbacks = self._end(operation)
        del self._under_way[operation]
        if callbacks.broke is not None:
            callbacks.broke(operation, error, now_ms)
