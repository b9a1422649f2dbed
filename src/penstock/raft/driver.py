"""Drives a replica of a quorum: performs its effects on a `Storage`, and passes it the events of the disk and of
others.

The replica decides, the storage has the files, and the host is what differs from quorum to quorum: the state machine
that follows the committed log, and the way to other nodes. Effects are carried out in order; those that result follow
behind. An exception meanwhile ends the drive: it is not known what was done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from penstock.config.server import Settings
from penstock.errors import StorageError
from penstock.log.disk import Disk
from penstock.log.results import Randomness
from penstock.protocol.message import Message
from penstock.raft.checkpoint import Checkpoint, CheckpointId, LogBatch
from penstock.raft.config import RaftConfig
from penstock.raft.core import Identity
from penstock.raft.effects import (
    Answer,
    AppendControl,
    AppendFetched,
    Call,
    Committed,
    Effect,
    InstallSnapshot,
    LeaderChanged,
    LoadSnapshot,
    PersistElection,
    Truncate,
    WriteSnapshot,
)
from penstock.raft.election import ElectionState
from penstock.raft.history import QuorumHistory
from penstock.raft.replica import RaftReplica
from penstock.raft.storage import Storage
from penstock.raft.topic import METADATA, QuorumTopic
from penstock.raft.voters import VoterSet
from penstock.records.control import control_batch
from penstock.records.wall import WallTime


class DriverHost(Protocol):
    """The surroundings of a driven replica: the state machine, and the other nodes."""

    def carries_out(self, effect: Effect) -> None:
        """Called before each effect is performed."""

    def control_appended(self, batch: bytearray, last_offset: int, epoch: int, now_ms: int) -> None:
        """A control batch goes into the log of this leader; it holds nothing for the state machine."""

    def committed(self, committed: Committed, now_ms: int) -> None:
        """Everything below an offset is committed, and may be applied."""

    def load_snapshot(self, snapshot: CheckpointId, now_ms: int) -> None:
        """A snapshot takes the place of everything before its end."""

    def leader_changed(self, changed: LeaderChanged, now_ms: int) -> None: ...

    def call(self, call: Call, now_ms: int) -> None:
        """Send a request; `Driver.answered` follows, exactly once."""

    def answer(self, answer: Answer, now_ms: int) -> None:
        """Answer a request that `Driver.handle` was given."""

    def truncated(self, now_ms: int) -> None:
        """Called when the log has been truncated."""

    def checkpoint_written(self, checkpoint: CheckpointId, now_ms: int) -> None:
        """A checkpoint of the state machine's own is complete and durable."""

    def checkpoint_found_no_room(self, now_ms: int) -> None:
        """A checkpoint of the state machine's own was not written, since there is no room for it."""

    def has_no_room(self, error: OSError, now_ms: int) -> None:
        """The disk is full: what was appended is neither written nor committed before there is room."""

    def has_room(self, now_ms: int) -> None:
        """What waited for room is written."""

    def failed(self, error: Exception, now_ms: int, *, raised: bool = False) -> None:
        """The disk has failed, or the replica cannot go on. `raised`: the replica, or who carried out an effect, broke
        off with the error."""

    def performed(self, now_ms: int) -> None:
        """Called when all effects of an event have been performed."""


class Found(NamedTuple):
    """The contents of a disk: the voters, the newest checkpoint, and the batches after that."""

    history: QuorumHistory
    checkpoint: tuple[CheckpointId, Checkpoint] | None
    batches: list[LogBatch]


def read(storage: Storage, static_voters: VoterSet) -> Found:
    """Reads the newest checkpoint and the log after it. Blocks. Raises StorageError."""
    history = QuorumHistory(static_voters)
    start_offset = 0
    found = storage.newest_checkpoint()
    if found is not None:
        checkpoint_id, checkpoint = found
        start_offset = checkpoint_id.end_offset
        history.start_at(start_offset, checkpoint.voters, checkpoint.kraft_version or 0)
    batches = list(storage.batches(start_offset))
    for batch in batches:
        for number, message in enumerate(batch.control):
            history.note(batch.header.base_offset + number, message)
    return Found(history, found, batches)


class Driver:
    """See the module's head. `prepare` is given the storage once it is open, and gives the replica's identity and what
    its log says of the voters.

    Attributes:
        storage, replica: what is driven.
        closing: the replica hears nothing more of other nodes: its host has failed, or is stopping.
    """

    def __init__(
        self,
        disk: Disk,
        settings: Settings,
        host: DriverHost,
        prepare: Callable[[Storage], tuple[Identity, QuorumHistory]],
        *,
        config: RaftConfig,
        randoms: tuple[Randomness, Randomness],
        wall: WallTime,
        now_ms: int,
        topic: QuorumTopic = METADATA,
    ) -> None:
        """Opens the files; blocks. `randoms` are the storage's and the replica's. Raises StorageError and whatever
        `prepare` does."""
        self.closing = False
        self._host = host
        self._wall = wall
        self._effects: deque[Effect] = deque()
        self._performing = False
        self.storage = Storage(disk, settings, self, randoms[0], now_ms, wall=wall, topic=topic)
        identity, history = prepare(self.storage)
        assert identity.topic == topic, "the replica speaks of the log that is stored"
        self.replica = RaftReplica(
            identity, history, self.storage.election, self.storage, config=config, random=randoms[1]
        )

    def start(self, now_ms: int) -> None:
        """Begins to take part."""
        self.perform(self.replica.start(now_ms), now_ms)

    def close(self) -> None:
        """Disconnects the replica from other nodes."""
        self.closing = True

    # Events of the replica

    def hear(self, event: Callable[[], Sequence[Effect]], now_ms: int) -> None:
        """Passes an event to the replica, and performs its effects. If it cannot read its log, the drive ends."""
        try:
            effects = event()
        except StorageError as error:
            self._host.failed(error, now_ms, raised=True)
            return
        self.perform(effects, now_ms)

    def handle(
        self,
        request: Message,
        version: int,
        token: object,
        now_ms: int,
        listener: str | None = None,
        *,
        link: object = None,
    ) -> None:
        """Passes a request of another node to the replica, which answers it, with its token, now or later."""
        if not self.closing:
            self.hear(lambda: self.replica.handle(request, version, now_ms, token, listener, link=link), now_ms)

    def answered(self, call: int, response: Message | None, now_ms: int) -> None:
        """The end of a call."""
        if not self.closing:
            self.hear(lambda: self.replica.answered(call, response, now_ms), now_ms)

    def append(self, batch: bytearray, end_offset: int, now_ms: int) -> None:
        """Appends a batch as the leader; the log ends at `end_offset` with it."""
        self.storage.append(batch, self.replica.epoch, now_ms)
        assert self.storage.end_offset == end_offset, "the batch and the log agree on offsets"
        self.hear(lambda: self.replica.appended(end_offset, now_ms), now_ms)

    # Effects

    def perform(self, effects: Sequence[Effect], now_ms: int) -> None:
        """Performs effects in order; those that result meanwhile follow."""
        self._effects.extend(effects)
        if self._performing:
            return
        self._performing = True
        try:
            while self._effects:
                self._carry_out(self._effects.popleft(), now_ms)
        except Exception as error:  # a record that this version cannot follow, or a bug: nobody knows what was done
            self._effects.clear()
            self._host.failed(error, now_ms, raised=True)
        finally:
            self._performing = False
        if self.replica.fault is not None:
            self._host.failed(StorageError(self.replica.fault), now_ms)
        self._host.performed(now_ms)

    def _carry_out(self, effect: Effect, now_ms: int) -> None:
        host = self._host
        host.carries_out(effect)
        if isinstance(effect, Committed):
            host.committed(effect, now_ms)
        elif isinstance(effect, Call):
            host.call(effect, now_ms)
        elif isinstance(effect, Answer):
            host.answer(effect, now_ms)
        elif isinstance(effect, LeaderChanged):
            host.leader_changed(effect, now_ms)
        elif isinstance(effect, LoadSnapshot):
            host.load_snapshot(effect.snapshot, now_ms)
        else:
            self._write(effect, now_ms)

    def _write(
        self,
        effect: AppendFetched | AppendControl | PersistElection | Truncate | WriteSnapshot | InstallSnapshot,
        now_ms: int,
    ) -> None:
        storage = self.storage
        if isinstance(effect, AppendFetched):
            storage.append_fetched(effect.records, now_ms)
            assert storage.end_offset == effect.log_end_offset, "the follower's log is as long as was said"
        elif isinstance(effect, AppendControl):
            self._append_control(effect, now_ms)
        elif isinstance(effect, PersistElection):
            storage.persist_election(effect.state, self.replica.kraft_version, self.replica.voters.voters)
        elif isinstance(effect, Truncate):
            storage.truncate(effect.offset, now_ms)
        elif isinstance(effect, WriteSnapshot):
            storage.write_snapshot(effect.snapshot, effect.position, effect.data)
        else:
            storage.install_snapshot(effect.snapshot)

    def _append_control(self, control: AppendControl, now_ms: int) -> None:
        base_offset, wall_ms = self.storage.end_offset, self._wall.at(now_ms)
        batch = control_batch(control.records, base_offset=base_offset, leader_epoch=control.epoch, wall_ms=wall_ms)
        end_offset = base_offset + len(control.records)
        self._host.control_appended(batch, end_offset - 1, control.epoch, now_ms)
        self.append(batch, end_offset, now_ms)

    # What the storage tells

    def election_persisted(self, state: ElectionState, now_ms: int) -> None:
        self.hear(lambda: self.replica.election_persisted(state, now_ms), now_ms)

    def log_written(self, offset: int, now_ms: int) -> None:
        self.hear(lambda: self.replica.written(offset, now_ms), now_ms)

    def log_flushed(self, offset: int, now_ms: int) -> None:
        self.hear(lambda: self.replica.flushed(offset, now_ms), now_ms)

    def log_truncated(self, log_end_offset: int, now_ms: int) -> None:
        self.hear(lambda: self.replica.truncated(log_end_offset, now_ms), now_ms)
        self._host.truncated(now_ms)

    def snapshot_written(self, snapshot: CheckpointId, size_bytes: int, now_ms: int) -> None:
        self.hear(lambda: self.replica.snapshot_written(snapshot, size_bytes, now_ms), now_ms)

    def snapshot_installed(
        self, snapshot: CheckpointId, voters: VoterSet | None, kraft_version: int, now_ms: int
    ) -> None:
        self.hear(lambda: self.replica.snapshot_installed(snapshot, voters, kraft_version, now_ms), now_ms)

    def snapshot_refused(self, snapshot: CheckpointId, now_ms: int) -> None:
        self.hear(lambda: self.replica.snapshot_refused(snapshot, now_ms), now_ms)

    def checkpoint_written(self, checkpoint: CheckpointId, now_ms: int) -> None:
        self._host.checkpoint_written(checkpoint, now_ms)

    def checkpoint_found_no_room(self, now_ms: int) -> None:
        self._host.checkpoint_found_no_room(now_ms)

    def has_no_room(self, error: OSError, now_ms: int) -> None:
        self._host.has_no_room(error, now_ms)
        self.hear(lambda: self.replica.ran_out(now_ms), now_ms)

    def has_room(self, now_ms: int) -> None:
        self._host.has_room(now_ms)
        self.hear(lambda: self.replica.has_room(now_ms), now_ms)

    def storage_failed(self, error: Exception, now_ms: int) -> None:
        """The disk has failed."""
        self._host.failed(error, now_ms)
