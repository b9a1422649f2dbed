"""The directories of replicas: created when one is assigned to this node, renamed when it leaves.

A directory is created only after an older one of the same name has been renamed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any
from uuid import UUID

from penstock.errors import StorageError
from penstock.log.checkpointing import Checkpointing
from penstock.log.directory_operations import CreateReplicas, SetAside
from penstock.log.events import LogEvent, StrayFound
from penstock.log.failures import Failures
from penstock.log.names import aside_name, parse_future_name, parse_name
from penstock.log.outbox import Done, Outbox
from penstock.log.removals import Removals
from penstock.log.replica import Replica, State
from penstock.log.table import ReplicaTable

CREATE_BATCH_MAX = 1000
"""Directories that one operation makes."""

Made = Callable[[Replica, int], None]


@dataclass(eq=False)
class ReplicaDirectories:
    """Creates them and sets them aside."""

    _table: ReplicaTable
    _outbox: Outbox
    _checkpointing: Checkpointing
    _removals: Removals
    _failures: Failures
    _random: Random
    _report: Callable[[LogEvent], None]
    _leaving: dict[tuple[str, int], list[tuple[Replica, Made]]] = field(default_factory=dict, init=False)
    _held: dict[Replica, SetAside] = field(default_factory=dict, init=False)

    def create(self, replicas: Sequence[Replica], made: Made) -> None:
        """Makes the directories of new replicas, one operation a log directory; `made` is called with each."""
        batches: dict[int, list[Replica]] = {}
        for replica in replicas:
            if replica.key in self._leaving:
                self._leaving[replica.key].append((replica, made))
            else:
                self._checkpointing.forget(replica.directory, replica.key)
                batches.setdefault(replica.directory.index, []).append(replica)
        for index, batch in batches.items():
            for start in range(0, len(batch), CREATE_BATCH_MAX):
                self._emit(index, batch[start : start + CREATE_BATCH_MAX], made)

    def _emit(self, index: int, replicas: Sequence[Replica], made: Made) -> None:
        """Has directories made. If there is no room for them, a little later: what is there already is no error."""

        def later(operation: CreateReplicas, now_ms: int) -> None:
            self._outbox.try_later(lambda _: self._emit(index, replicas, made), now_ms)
            for replica in replicas:
                if replica.state is State.CREATING:
                    replica.waits_for_room(now_ms)

        after = self._checkpointing.write_stale(self._table.directories[index])
        create = CreateReplicas(index, self._outbox, replicas, after)
        self._outbox.emit(create, partial(self._created, made), broke=self._create_broke, no_room=later)

    def _created(self, made: Made, operation: CreateReplicas, found: set[str], now_ms: int) -> None:
        for replica in operation.replicas:
            if replica.state is State.CREATING:
                replica.unused = replica.name not in found
                made(replica, now_ms)
            else:
                self.leave_if_held(replica)

    def _create_broke(self, operation: CreateReplicas, error: Exception, now_ms: int) -> None:
        for replica in operation.replicas:
            if replica.state is State.CREATING:
                self._failures.replica_broken(replica, StorageError(f"a bug: {error!r}"), now_ms)

    def leave(self, replica: Replica, suffix: str, now_ms: int) -> None:
        """Forgets a replica that was removed from the table, and has its directory renamed: `delete` or `stray`."""
        self._checkpointing.forget(replica.directory, replica.key)
        if replica.log is not None:
            self._table.open.pop(replica.log.name, None)
            replica.log = None
        if replica.directory.error is None:
            self.set_aside(replica, suffix)
        replica.state = State.GONE
        replica.done(now_ms)

    def dismiss(self, replica: Replica, suffix: str, now_ms: int) -> None:
        """Like `leave`, for a replica in the table."""
        self._table.remove(replica)
        self.leave(replica, suffix, now_ms)

    def set_aside(self, replica: Replica, suffix: str) -> None:
        """Renames the directory of a replica that was removed from the table.

        Operations on the replica alone come first by their order; for those on many replicas the renaming is held back.
        """
        state, replica.state = replica.state, State.GONE
        if state is State.CREATING and any(replica is each for each, _ in self._leaving.get(replica.key, ())):
            return  # it never got a directory: one of the same name is still leaving
        if not replica.is_future:
            self._leaving.setdefault(replica.key, [])
        unique = UUID(int=self._random.getrandbits(128), version=4)
        renamed = aside_name(replica.topic, replica.partition, unique, suffix)
        if suffix == "stray":
            self._report(StrayFound(replica.name, renamed))
        unwanted = suffix == "delete"
        rename = SetAside(replica.directory.index, self._outbox, replica.name, renamed, unwanted=unwanted)
        if state in (State.CREATING, State.RETIRING):
            self._held[replica] = rename
        else:
            self.rename(rename, self._left)

    def leave_if_held(self, replica: Replica) -> None:
        """An operation on many replicas has ended, for which this one's renaming may have been held back."""
        rename = self._held.pop(replica, None)
        if rename is not None:
            self.rename(rename, self._left)

    def rename(self, operation: SetAside, done: Done[SetAside], *, ended: Callable[[], None] | None = None) -> None:
        """Has a directory renamed, and tries again later if there is no room for it. `ended` is for the first time."""

        def later(operation: SetAside, now_ms: int) -> None:
            again = operation.again()
            self._outbox.try_later(lambda _: self.rename(again, done), now_ms)

        self._outbox.emit(operation, done, ended=ended, no_room=later)

    def _left(self, operation: SetAside, result: Any, now_ms: int) -> None:
        partition = parse_name(operation.name)
        if partition is None:
            partition = parse_future_name(operation.name)
            assert partition is not None, operation.name
        else:
            for successor, made in self._leaving.pop(partition, []):
                if successor.state is State.CREATING:
                    self.create([successor], made)
        if operation.renamed.endswith("-delete"):
            self._removals.remove_later(operation.directory, operation.renamed, partition[0], now_ms)
