"""Replicas on their way to another log directory of the node: *future* replicas, as Kafka names them (KIP-113).

A future replica is a second one of its partition, in `<topic>-<partition>.<32 hex digits>-future` of the directory it
goes to. Who drives the move (the node) fills it from the one in use. When it has nearly everything, the log in use is
*frozen*: it closes, and whoever wants it waits, as for any log that is being opened. The rest is copied, the future
log closes as well, and the two swap: the old directory is renamed to `-delete`, then the new one to the partition's
name. Whoever waits gets the new log.

A crash between the two renames leaves a complete future replica and no other; `promote` takes it into use at the next
start. At every other moment the old replica is there, and the move goes on after a start.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any
from uuid import UUID

from penstock.config.limits import PREFERRED_DIRECTORIES_MAX
from penstock.errors import StorageError
from penstock.log.directory import LogDirectory
from penstock.log.directory_operations import SetAside
from penstock.log.disk import Operation
from penstock.log.log import Log
from penstock.log.part import ManagerPart
from penstock.log.replica import Replica, State, aside_name

if TYPE_CHECKING:
    from penstock.log.manager import LogManager

Key = tuple[str, int]


class Step(SetAside):
    """A rename of a swap. `replica` is the one that comes into use; `last`: it has its name by this."""

    __slots__ = ("last", "replica")

    def __init__(self, owner: Moving, directory: int, name: str, renamed: str, replica: Replica, *, last: bool) -> None:
        super().__init__(directory, owner, name, renamed)
        self.replica = replica
        self.last = last


class Moving(ManagerPart):
    """The future replicas of a log manager. See the module's head.

    Attributes:
        futures: by (topic, partition).
        preferred: directories that replicas are to be made in which are not there yet.
        on_closed: called with the key when a frozen log has closed.
    """

    def __init__(self, manager: LogManager, random: Random) -> None:
        super().__init__(manager)
        self.futures: dict[Key, Replica] = {}
        self.preferred: dict[Key, LogDirectory] = {}
        self.on_closed: Callable[[Key, int], None] = lambda key, now_ms: None
        self._random = random
        self._unrecovered: set[Key] = set()
        self._following: dict[Step, Step] = {}

    def prefer(self, key: Key, directory: LogDirectory) -> None:
        """A replica that is made later goes to this directory."""
        self.preferred.pop(key, None)
        self.preferred[key] = directory
        if len(self.preferred) > PREFERRED_DIRECTORIES_MAX:
            del self.preferred[next(iter(self.preferred))]

    def adopt(self, key: Key, name: str, directory: LogDirectory, state: State) -> bool:
        """A future replica found at start. False if there is another of its partition: then it is to go."""
        if key in self.futures:
            return False
        self.futures[key] = Replica(*key, None, directory, state, own_name=name)
        directory.replicas += 1
        return True

    def begin(self, key: Key, topic_id: UUID, directory: LogDirectory) -> Replica:
        """Makes an empty future replica."""
        assert key not in self.futures, f"{key} is being moved"
        unique = UUID(int=self._random.getrandbits(128), version=4)
        name = aside_name(*key, unique, "future")
        replica = Replica(*key, topic_id, directory, State.CREATING, own_name=name)
        replica.size_bytes = 0
        self.futures[key] = replica
        directory.replicas += 1
        self.manager.lifecycle.create([replica])
        return replica

    def log(self, key: Key, now_ms: int) -> Log:
        """The open future log. Raises NotOpen, and StorageError when there is none or it cannot be opened."""
        replica = self.futures.get(key)
        if replica is None:
            raise StorageError(f"{key[0]}-{key[1]} is not being moved")
        return self.manager.log_of(replica, now_ms)

    def note_high_watermark(self, key: Key, offset: int) -> None:
        """The future replica's, for the next checkpoint of its directory."""
        replica = self.futures.get(key)
        if replica is not None:
            self.manager.upkeep.note(replica.directory, replica.directory.high_watermarks, key, offset)

    def high_watermark(self, key: Key) -> int:
        """As checkpointed; 0 if unknown."""
        replica = self.futures.get(key)
        return replica.directory.high_watermarks.get(key) or 0 if replica is not None else 0

    def abandon(self, key: Key, now_ms: int) -> None:
        """The move is off: the future replica goes, the one in use is served again."""
        future = self.futures.pop(key, None)
        if future is not None:
            future.directory.replicas -= 1
            self.manager.leave(future, "delete", now_ms)
        main = self.manager.find(*key)
        if main is not None and main.frozen:
            main.frozen = False
            if main.state is State.CLOSED:
                self.manager.lifecycle.settled(main, now_ms)

    # The swap

    def freeze(self, replica: Replica, now_ms: int) -> None:
        """Closes an open log; nobody opens it again before the swap. `on_closed` follows, perhaps at once."""
        replica.frozen = True
        self.manager.close(replica, now_ms)

    def settled(self, replica: Replica, now_ms: int) -> None:
        """A frozen log has closed."""
        self.on_closed(replica.key, now_ms)

    def both_closed(self, key: Key) -> bool:
        """Whether nothing goes on any more in either of the two."""
        main, future = self.manager.find(*key), self.futures.get(key)
        return main is not None and future is not None and main.state is future.state is State.CLOSED

    def swap(self, key: Key) -> None:
        """Takes the future replica into use, and the other one away. Both are frozen and closed."""
        manager = self.manager
        main, future = manager.find(*key), self.futures[key]
        assert main is not None
        assert main.state is future.state is State.CLOSED, (main.state, future.state)
        source, target = main.directory, future.directory
        unique = UUID(int=self._random.getrandbits(128), version=4)
        set_aside = aside_name(*key, unique, "delete")
        for old, new in ((source.log_starts, target.log_starts), (source.high_watermarks, target.high_watermarks)):
            manager.upkeep.note(target, new, key, max(old.get(key) or 0, new.get(key) or 0))
        manager.upkeep.forget(source, key)
        manager.remove(main)
        main.state = State.GONE
        waiting, main.opening = main.opening, None
        if waiting is not None:
            future.when_open().extend(waiting.when_done)
        first = Step(self, source.index, main.name, set_aside, future, last=False)
        self._following[first] = self._into_use(future)
        manager.emit(first)

    def promote(self, key: Key, topic_id: UUID) -> None:
        """Takes a future replica into use that is the only one of its partition."""
        future = self.futures[key]
        if future.state is not State.CLOSED:
            self._unrecovered.add(key)
        future.topic_id = topic_id
        self.manager.emit(self._into_use(future))

    def _into_use(self, future: Replica) -> Step:
        """The table has the replica under its partition from now on; its directory gets the name by the step given."""
        name = future.name
        del self.futures[future.key]
        future.directory.replicas -= 1
        future.own_name = None
        future.frozen = False
        future.state = State.CREATING
        self.manager.add(future)
        return Step(self, future.directory.index, name, future.name, future, last=True)

    def operation_completed(self, operation: Operation, result: Any, now_ms: int) -> None:
        assert isinstance(operation, Step)
        following = self._following.pop(operation, None)
        if following is not None:
            self.manager.emit(following)
            self.manager.upkeep.remove_later(operation.directory, operation.renamed, operation.replica.topic, now_ms)
        super().operation_completed(operation, result, now_ms)

    def operation_failed(self, operation: Operation, error: OSError, now_ms: int) -> None:
        """The directory that a replica leaves may fail: the one it goes to has everything."""
        assert isinstance(operation, Step)
        following = self._following.pop(operation, None)
        if following is not None:
            self.manager.emit(following)
        super().operation_failed(operation, error, now_ms)

    def completed(self, operation: Operation, result: Any, now_ms: int) -> None:
        assert isinstance(operation, Step)
        if not operation.last:
            return
        replica, manager = operation.replica, self.manager
        unrecovered = replica.key in self._unrecovered
        self._unrecovered.discard(replica.key)
        if replica.state is not State.CREATING:
            manager.lifecycle.leave_if_held(replica)
            return
        manager.upkeep.changed(replica)
        if unrecovered:
            replica.state = State.UNRECOVERED
            manager.lifecycle.proceed(replica, now_ms)
        else:
            manager.lifecycle.settled(replica, now_ms)
