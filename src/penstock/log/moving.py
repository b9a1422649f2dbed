"""Replicas on their way to another log directory of the node: *future* replicas, as Kafka names them (KIP-113).

A future replica is a second one of its partition, in `<topic>-<partition>.<32 hex digits>-future` of the directory it
goes to. Who drives the move (the node) fills it from the one in use: closed segments as files, the rest by batches.
When it has nearly everything, the log in use is *frozen*: it closes, and whoever wants it waits, as for any log that is
being opened. The rest is copied, the future log closes as well, and the two swap: the old directory is renamed to
`-delete`, then the new one to the partition's name. Whoever waits gets the new log.

What was copied before a pass of the cleaner is as it was before that pass. So the new replica counts as clean no
further than the old one did when the move began, and after a start in between not at all: the cleaner goes through it
again.

A crash between the two renames leaves a complete future replica and no other; `promote` takes it into use at the next
start. At every other moment the old replica is there, and the move goes on after a start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any
from uuid import UUID

from penstock.errors import StorageError
from penstock.log.checkpointing import Checkpointing
from penstock.log.compaction.schedule import CleaningSchedule
from penstock.log.directory import LogDirectory
from penstock.log.directory_operations import SetAside
from penstock.log.limits import PREFERRED_DIRECTORIES_MAX
from penstock.log.log import Log
from penstock.log.names import aside_name
from penstock.log.open_logs import OpenLogs
from penstock.log.outbox import Done, Outbox
from penstock.log.removals import Removals
from penstock.log.replica import Replica, State
from penstock.log.replica_directories import ReplicaDirectories
from penstock.log.retention_schedule import RetentionSchedule
from penstock.log.segment_copies import RemoveCopies
from penstock.log.table import ReplicaTable

Key = tuple[str, int]


@dataclass(eq=False)
class Moving:
    """The future replicas of a log manager. See the module's head.

    Attributes: `preferred`, the directories for replicas that are not created yet.
    """

    _table: ReplicaTable
    _outbox: Outbox
    _logs: OpenLogs
    _directories: ReplicaDirectories
    _checkpointing: Checkpointing
    _removals: Removals
    _retention: RetentionSchedule
    _cleaning: CleaningSchedule
    _random: Random
    preferred: dict[Key, LogDirectory] = field(default_factory=dict, init=False)
    _unrecovered: set[Key] = field(default_factory=set, init=False)
    _frozen: set[Replica] = field(default_factory=set, init=False)
    _clean_from: dict[Key, int] = field(default_factory=dict, init=False)

    def prefer(self, key: Key, directory: LogDirectory) -> None:
        """A replica that is created later goes to this directory."""
        self.preferred.pop(key, None)
        self.preferred[key] = directory
        if len(self.preferred) > PREFERRED_DIRECTORIES_MAX:
            del self.preferred[next(iter(self.preferred))]

    def begin(self, key: Key, topic_id: UUID, directory: LogDirectory) -> None:
        """Makes an empty future replica."""
        unique = UUID(int=self._random.getrandbits(128), version=4)
        replica = Replica(*key, topic_id, directory, State.CREATING, own_name=aside_name(*key, unique, "future"))
        replica.size_bytes = 0
        self._table.add(replica)
        main = self._table.find(*key)
        self._clean_from[key] = main.directory.clean_offsets.get(key) or 0 if main is not None else 0
        self._directories.create([replica], self._logs.now_closed)

    def log(self, key: Key, now_ms: int) -> Log:
        """The open future log. Raises NotOpen, and StorageError when there is none or it cannot be opened."""
        replica = self._table.futures.get(key)
        if replica is None:
            raise StorageError(f"{key[0]}-{key[1]} is not being moved")
        return self._logs.get(replica, now_ms)

    def note_high_watermark(self, key: Key, offset: int) -> None:
        """Keeps the future replica's high watermark for the next checkpoint of its directory."""
        replica = self._table.futures.get(key)
        if replica is not None:
            self._checkpointing.note(replica, replica.directory.high_watermarks, offset)

    def high_watermark(self, key: Key) -> int:
        """The checkpointed high watermark; 0 if unknown."""
        replica = self._table.futures.get(key)
        return replica.high_watermark if replica is not None else 0

    def abandon(self, key: Key, now_ms: int) -> None:
        """Cancels a move: deletes the future replica, and serves the one in use again."""
        future = self._table.futures.get(key)
        self._clean_from.pop(key, None)
        if future is not None:
            self._frozen.discard(future)
            self._directories.dismiss(future, "delete", now_ms)
        main = self._table.find(*key)
        if main is not None and main in self._frozen:
            self._frozen.discard(main)
            main.frozen = None
            if main.state is State.CLOSED:
                self._logs.now_closed(main, now_ms)

    # The swap

    def freeze(self, replica: Replica, closed: Callable[[int], None], now_ms: int) -> None:
        """Closes an open log; nobody opens it again before the swap. `closed(now_ms)` follows, perhaps at once."""
        replica.frozen = closed
        self._frozen.add(replica)
        self._logs.close(replica, now_ms)

    def thaw(self, future: Replica, now_ms: int) -> None:
        """A future replica that was frozen may be opened again."""
        self._frozen.discard(future)
        future.frozen = None
        if future.state is State.CLOSED:
            self._logs.now_closed(future, now_ms)

    def note_copied(self, future: Replica, end_offset: int) -> None:
        """All below this offset has come into the files of a closed future replica, durably."""
        self._checkpointing.note(future, future.directory.recovery_points, end_offset)

    def remove_copies(self, key: Key) -> None:
        """Removes what a copy of a segment has left that was broken off before this start."""
        self._outbox.emit(RemoveCopies(self._table.futures[key], self._outbox))

    def both_closed(self, key: Key) -> bool:
        """Whether both logs are closed and nothing of them is under way."""
        main, future = self._table.find(*key), self._table.futures.get(key)
        return main is not None and future is not None and main.state is future.state is State.CLOSED

    def swap(self, key: Key) -> None:
        """Takes the future replica into use, and deletes the other one. Both are frozen and closed."""
        table = self._table
        main, future = table.find(*key), table.futures[key]
        assert main is not None
        assert main.state is future.state is State.CLOSED, (main.state, future.state)
        self._frozen -= {main, future}
        source, target = main.directory, future.directory
        unique = UUID(int=self._random.getrandbits(128), version=4)
        set_aside = aside_name(*key, unique, "delete")
        for old, new in ((source.log_starts, target.log_starts), (source.high_watermarks, target.high_watermarks)):
            self._checkpointing.note(future, new, max(old.get(key) or 0, new.get(key) or 0))
        clean_offset = source.clean_offsets.get(key)
        if clean_offset is not None:
            clean_offset = min(clean_offset, self._clean_from.pop(key, 0))
            self._checkpointing.note(future, target.clean_offsets, clean_offset)
        self._checkpointing.forget(source, key)
        table.remove(main)
        main.state = State.GONE
        waiting, main.opening = main.opening, None
        if waiting is not None:
            future.when_open().extend(waiting.when_done)
        first = SetAside(source.index, self._outbox, main.name, set_aside)
        use = self._into_use(future)
        # The directory that the replica leaves may fail, or have no room: the one it goes to has everything.
        self._directories.rename(first, partial(self._left, main), ended=lambda: self._directories.rename(*use))

    def promote(self, key: Key, topic_id: UUID) -> None:
        """Takes a future replica into use that is its partition's only one."""
        future = self._table.futures[key]
        if future.state is not State.CLOSED:
            self._unrecovered.add(key)
        future.topic_id = topic_id
        self._directories.rename(*self._into_use(future))

    def _into_use(self, future: Replica) -> tuple[SetAside, Done[SetAside]]:
        """Puts the future replica into the table under its partition; returns the renaming of its directory, and its
        callback.
        """
        name = future.name
        self._table.remove(future)
        future.own_name = None
        future.frozen = None
        future.state = State.CREATING
        self._table.add(future)
        return SetAside(future.directory.index, self._outbox, name, future.name), partial(self._in_use, future)

    def _left(self, replica: Replica, operation: SetAside, result: Any, now_ms: int) -> None:
        self._removals.remove_later(operation.directory, operation.renamed, replica.topic, now_ms)

    def _in_use(self, replica: Replica, operation: SetAside, result: Any, now_ms: int) -> None:
        unrecovered = replica.key in self._unrecovered
        self._unrecovered.discard(replica.key)
        if replica.state is not State.CREATING:
            self._directories.leave_if_held(replica)
            return
        self._retention.changed(replica)
        self._cleaning.changed(replica)
        if unrecovered:
            replica.state = State.UNRECOVERED
            self._logs.proceed(replica, now_ms)
        else:
            self._logs.now_closed(replica, now_ms)
