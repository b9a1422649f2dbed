"""A machine that runs one replica of a quorum and nothing else: the real RaftReplica and Storage on a simulated disk.

Its state machine is a hash over all committed batches, in order: two nodes that have applied the same log have the
same hash, and a checkpoint holds it. Whatever the replica says and does is shown to `RaftRules`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol
from uuid import UUID

from penstock.config.server import Settings
from penstock.protocol.message import Message
from penstock.raft.checkpoint import BOOTSTRAP, CheckpointId, checkpoint_batches, write_checkpoint
from penstock.raft.config import RaftConfig
from penstock.raft.core import Identity
from penstock.raft.driver import Driver, read
from penstock.raft.effects import (
    Answer,
    AppendControl,
    AppendFetched,
    Call,
    Committed,
    Effect,
    LeaderChanged,
    PersistElection,
    Target,
    Truncate,
    WriteSnapshot,
)
from penstock.raft.history import QuorumHistory
from penstock.raft.replica import RaftReplica
from penstock.raft.storage import Storage
from penstock.raft.topic import METADATA
from penstock.raft.voters import ReplicaKey, VoterEndpoint, VoterSet
from penstock.records.batch import headers
from penstock.records.builder import BatchBuilder
from penstock.records.wall import WallTime
from simulator.raft.rules import EMPTY_HASH, RaftRules, applied_hash
from simulator.world.disk import PowerLoss, SimulatedDisk
from simulator.world.driver import Lanes, Simulation

LISTENER = "CONTROLLER"
RESTART_DELAY_MS = 400
READ_BYTES = 1024 * 1024
CONFIG = RaftConfig(
    election_timeout_ms=300,
    fetch_timeout_ms=600,
    election_backoff_max_ms=300,
    request_timeout_ms=400,
    retry_backoff_ms=20,
    fetch_wait_max_ms=200,
    fetch_max_bytes=2_000,
    fetch_snapshot_max_bytes=150,
    leader_grace_ms=100,
    start_election_ms=50,
)


def target_of(node_id: int) -> Target:
    """Where a node of the simulated world is."""
    return Target(node_id, f"node-{node_id}", 9093, LISTENER)


def endpoint_of(node_id: int) -> VoterEndpoint:
    return VoterEndpoint(LISTENER, f"node-{node_id}", 9093)


class SlowDisk(SimulatedDisk):
    """A disk whose fsyncs take `slow_fsync_us` longer than they should, if that is set."""

    slow_fsync_us = 0

    def fsync(self, path: str) -> None:
        super().fsync(path)
        self.busy_us += self.slow_fsync_us


@dataclass(frozen=True, slots=True)
class Setup:
    """What all nodes of a quorum have in common. `static_voters` are those of `controller.quorum.voters`, if any."""

    simulation: Simulation
    rules: RaftRules
    settings: Settings
    bootstrap_ids: Sequence[int]
    static_voters: VoterSet
    checkpoint_every: int


class Surroundings(Protocol):
    """Who carries what a node sends, and is told what befalls it."""

    def send(self, sender: RaftNode, call: Call) -> None:
        """Carries a request; its sender hears of the end of it in any case."""

    def answer(self, node: RaftNode, token: Any, response: Message) -> None:
        """Carries a response back to where its request came from."""

    def persists_election(self, node: RaftNode) -> None:
        """A vote or an epoch is about to be written to the disk."""

    def node_died(self, dead: RaftNode) -> None:
        """A node went down."""

    def node_ran_out(self) -> None:
        """The disk of a node has no room."""


class RaftNode:
    """One incarnation after the other of a replica on the same disk.

    Attributes:
        replica, storage: the present ones, while `running`.
        snapshots_installed: how many it has got from a leader.
        applied_offset, state_hash: how far its state machine is, and what it is.
        acknowledged: what to do when an offset is committed, by the last offset of what was appended.
    """

    def __init__(
        self, setup: Setup, surroundings: Surroundings, node_id: int, directory_id: UUID, *, stands: bool
    ) -> None:
        self.setup = setup
        self.simulation = setup.simulation
        self.rules = setup.rules
        self.surroundings = surroundings
        self.key = ReplicaKey(node_id, directory_id)
        self.stands = stands
        self.disk = self._new_disk()
        self.snapshots_installed = 0
        self.running = False
        self.incarnation = 0
        self.applied_offset = 0
        self.state_hash = EMPTY_HASH
        self.snapshot_offset = 0
        self.waiting: list[int] = []
        self.open_calls: dict[int, Target] = {}
        self.driver: Driver
        self._lanes: Lanes
        self._tick_ms: int | None = None
        self._writing_checkpoint = False
        self._applied_epoch = 0

    @property
    def replica(self) -> RaftReplica:
        return self.driver.replica

    @property
    def storage(self) -> Storage:
        return self.driver.storage

    @property
    def name(self) -> str:
        return f"node {self.key.id}"

    def _new_disk(self) -> SlowDisk:
        return SlowDisk(random=Random(self.simulation.random.getrandbits(64)), clock=self.simulation.clock)

    # Life

    def format(self, voters: VoterSet) -> None:
        """Writes the checkpoint with which a quorum of kraft.version 1 begins."""
        self.disk.make_directory(METADATA.directory)
        self.disk.fsync_directory("")
        batches = checkpoint_batches(
            (), epoch=0, last_contained_timestamp_ms=0, wall_ms=0, kraft_version=1, voters=voters
        )
        write_checkpoint(self.disk, METADATA.directory, BOOTSTRAP.file, batches)

    def start(self) -> None:
        """Boots; if the power fails on the way, once more."""
        if self.running:
            return
        self.incarnation += 1
        now_ms = self.simulation.now_ms
        self._tick_ms, self._writing_checkpoint = None, False
        self.open_calls, self.waiting = {}, []
        self._lanes = Lanes(self.simulation, [self.disk], on_event=self.drain, on_crash=self.kill)
        self.simulation.trace(f"{self.name} starts")
        randoms = Random(self.key.id), Random(self.simulation.random.getrandbits(64))
        try:
            self.driver = Driver(
                self.disk,
                self.setup.settings,
                self,
                self._prepare,
                config=CONFIG,
                randoms=randoms,
                wall=WallTime(),
                now_ms=now_ms,
            )
        except (PowerLoss, OSError):
            self.kill()
            return
        self.running = True
        self.driver.start(now_ms)
        self.drain()

    def _prepare(self, storage: Storage) -> tuple[Identity, QuorumHistory]:
        """Restores the state machine from the newest checkpoint; the log after it is not known to be committed."""
        self.applied_offset, self.state_hash, self.snapshot_offset = 0, EMPTY_HASH, 0
        history, found, _ = read(storage, self.setup.static_voters)
        if found is not None:
            snapshot, checkpoint = found
            self.snapshot_offset = snapshot.end_offset
            if checkpoint.values:
                self._restore(snapshot, checkpoint.values[0])
        identity = Identity(
            self.key,
            "simulated-cluster",
            LISTENER,
            (endpoint_of(self.key.id),),
            [target_of(each) for each in self.setup.bootstrap_ids if each != self.key.id],
            self.stands,
        )
        return identity, history

    def _restore(self, snapshot: CheckpointId, value: bytes) -> None:
        self.applied_offset, self.state_hash = snapshot.end_offset, value
        self.rules.applied(self.key, self.applied_offset, self.state_hash)

    def kill(self, *, power_failed: bool = True) -> None:
        """The machine, or the process alone, goes down now and comes back a little later."""
        self._lanes.stop()
        self.running = False
        self.disk.restart(power_failed=power_failed)
        self.simulation.trace(f"{self.name} {'loses power' if power_failed else 'is killed'}")
        self.surroundings.node_died(self)
        self.simulation.after_ms(RESTART_DELAY_MS + self.simulation.random.randrange(2_000), self.start)

    def wipe(self, directory_id: UUID) -> None:
        """The disk is replaced by an empty one: to the quorum this is another replica with the same id."""
        self._lanes.stop()
        self.running = False
        self.key = ReplicaKey(self.key.id, directory_id)
        self.disk = self._new_disk()
        self.simulation.trace(f"{self.name} has lost its disk")
        self.simulation.after_ms(RESTART_DELAY_MS, self.start)

    # Events

    def act(self, event: Callable[[int], Sequence[Effect]]) -> None:
        """Tells the replica of something, and lets the disk and the clock know."""
        now_ms = self.simulation.now_ms
        self.driver.hear(lambda: event(now_ms), now_ms)
        self.drain()

    def drain(self) -> None:
        if not self.running:
            return
        self._lanes.run(self.storage.take_operations(self.simulation.now_ms))
        fault = self.replica.fault
        self.rules.sound(self.key, fault)
        deadlines = (self.replica.next_deadline_ms(), self.storage.next_deadline_ms())
        deadline_ms = min((each for each in deadlines if each is not None), default=None)
        if deadline_ms is not None and (self._tick_ms is None or deadline_ms < self._tick_ms):
            self._tick_ms = deadline_ms
            incarnation = self.incarnation
            self.simulation.at_ms(deadline_ms, lambda: self._tick(incarnation, deadline_ms))

    def _tick(self, incarnation: int, set_for_ms: int) -> None:
        if self.running and incarnation == self.incarnation and self._tick_ms == set_for_ms:
            self._tick_ms = None
            self.act(self.replica.tick)

    def receive(self, request: Message, version: int, token: object) -> None:
        if self.running:
            self.driver.handle(request, version, token, self.simulation.now_ms)
            self.drain()

    def answered(self, incarnation: int, call: int, response: Message | None) -> None:
        """The end of a call, once; what comes later is dropped, as a shell does."""
        if self.running and incarnation == self.incarnation and self.open_calls.pop(call, None) is not None:
            self.driver.answered(call, response, self.simulation.now_ms)
            self.drain()

    def append(self, values: list[bytes]) -> None:
        """A client's write to the leader."""
        now_ms = self.simulation.now_ms
        base_offset, epoch = self.storage.end_offset, self.replica.epoch
        builder = BatchBuilder(base_offset=base_offset, leader_epoch=epoch)
        for value in values:
            builder.append(now_ms, None, value)
        batch = builder.build()
        self.rules.wrote(self.key, batch)
        self.driver.append(batch, base_offset + len(values), now_ms)
        self.waiting.append(base_offset + len(values) - 1)
        self.drain()

    # What is around the replica, see `raft.driver.Host`

    def carries_out(self, effect: Effect) -> None:
        self.simulation.trace(f"{self.name}: {shown(effect)}")
        match effect:
            case PersistElection():
                self.surroundings.persists_election(self)
            case AppendControl(epoch, records) if records[0].NAME == "LeaderChangeMessage":
                end_offset = self.storage.end_offset
                self.rules.elected(self.key, epoch, self._batches(self.storage.start_offset, end_offset), end_offset)
            case AppendFetched(records, _):
                self.rules.wrote(self.key, records)
            case Truncate(offset):
                self.rules.cut(self.key, offset)

    def control_appended(self, batch: bytearray, last_offset: int, epoch: int, now_ms: int) -> None:
        self.rules.wrote(self.key, batch)

    def call(self, call: Call, now_ms: int) -> None:
        self.open_calls[call.call] = call.target
        self.surroundings.send(self, call)

    def answer(self, answer: Answer, now_ms: int) -> None:
        self.surroundings.answer(self, answer.token, answer.response)

    def leader_changed(self, changed: LeaderChanged, now_ms: int) -> None:
        if changed.leader_id == self.key.id:
            self.rules.leads(self.key, changed.epoch)
        else:
            self.waiting.clear()

    def truncated(self, now_ms: int) -> None:
        written = read(self.storage, self.setup.static_voters).history
        self.rules.knows_the_voters(self.key, self.replica.history.voters, written.voters)

    def performed(self, now_ms: int) -> None:
        """Does nothing: `drain` follows."""

    def failed(self, error: Exception, now_ms: int, *, raised: bool = False) -> None:
        self.rules.sound(self.key, self.replica.fault)
        if raised:
            raise error
        self.simulation.trace(f"{self.name}: {error}")
        incarnation = self.incarnation
        self.simulation.after_us(0, lambda: self._down(incarnation))

    def _batches(self, offset: int, end_offset: int) -> list[tuple[int, int, int, int]]:
        """(base offset, next offset, epoch, checksum) of the batches from `offset` to `end_offset` that are written."""
        found = []
        end_offset = min(end_offset, self.storage.log.log_end_offset)
        while offset < end_offset:
            view = memoryview(self.storage.log.read_bytes(offset, READ_BYTES))
            for _, header in headers(view):
                if offset <= header.base_offset < end_offset:
                    found.append((header.base_offset, header.next_offset, header.leader_epoch, header.crc))
                offset = header.next_offset
        return found

    def committed(self, committed: Committed, now_ms: int) -> None:
        high_watermark = committed.high_watermark
        self.rules.told(self.key, self.incarnation, high_watermark)
        for base_offset, next_offset, epoch, crc in self._batches(self.applied_offset, high_watermark):
            self.rules.committed(self.key, base_offset, next_offset, epoch, crc)
            self.state_hash = applied_hash(self.state_hash, base_offset, epoch, crc)
            self.applied_offset = next_offset
            self._applied_epoch = epoch
            self.rules.applied(self.key, next_offset, self.state_hash)
        self.rules.reached(self.key, self.applied_offset, high_watermark)
        while self.waiting and self.waiting[0] < high_watermark:
            self.rules.acknowledged(self.waiting.pop(0))
        self._consider_checkpoint()

    def load_snapshot(self, snapshot: CheckpointId, now_ms: int) -> None:
        self.snapshots_installed += 1
        found = self.storage.newest_checkpoint()
        assert found is not None
        assert found[0] == snapshot, "the installed snapshot is the newest"
        self.snapshot_offset = snapshot.end_offset
        self._restore(snapshot, found[1].values[0])

    def _consider_checkpoint(self) -> None:
        if self._writing_checkpoint or self.applied_offset - self.snapshot_offset < self.setup.checkpoint_every:
            return
        self._writing_checkpoint = True
        self.snapshot_offset = self.applied_offset
        value, history = self.state_hash, self.replica.history
        voters = history.voters_at(self.applied_offset)
        version = history.kraft_version_at(self.applied_offset)
        snapshot = CheckpointId(self.applied_offset, self._applied_epoch)
        self.storage.write_checkpoint(
            snapshot,
            lambda: checkpoint_batches(
                [value],
                epoch=snapshot.epoch,
                last_contained_timestamp_ms=0,
                wall_ms=0,
                kraft_version=version,
                voters=voters,
            ),
        )

    def checkpoint_written(self, checkpoint: CheckpointId, now_ms: int) -> None:
        self._writing_checkpoint = False
        self.storage.retire(min(self.applied_offset, self.storage.log.log_end_offset), now_ms)

    def checkpoint_found_no_room(self, now_ms: int) -> None:
        self._writing_checkpoint = False

    def has_no_room(self, error: OSError, now_ms: int) -> None:
        self.simulation.trace(f"{self.name}: no room")
        self.surroundings.node_ran_out()

    def has_room(self, now_ms: int) -> None:
        self.simulation.trace(f"{self.name}: room")

    def _down(self, incarnation: int) -> None:
        if self.running and incarnation == self.incarnation:
            self.kill(power_failed=self.simulation.random.random() < 0.5)


def shown(effect: Effect) -> str:
    """An effect for the trace, in a line."""
    match effect:
        case Call(call, target, request, _):
            return f"-> {target.node_id} {call} {about(request)}"
        case Answer(token, response):
            whose = f"{token[0].key.id} {token[2]}" if isinstance(token, tuple) else token
            return f"<- {whose} {about(response)}"
        case AppendControl(epoch, records):
            return f"append in {epoch} {', '.join(record.NAME for record in records)}"
        case AppendFetched(records, end_offset):
            return f"append {len(records)} bytes to {end_offset}"
        case WriteSnapshot(snapshot, position, data):
            return f"write {len(data)} bytes of {snapshot.file} at {position}"
    return str(effect)


SHOWN_FIELDS = (
    "error_code", "leader_id", "leader_epoch", "current_leader_epoch", "replica_epoch", "last_offset_epoch",
    "last_offset", "pre_vote", "vote_granted", "fetch_offset", "last_fetched_epoch", "high_watermark", "position",
)  # fmt: skip
"""What the trace tells of a request or response, where it has it."""


def about(message: Any) -> str:
    """A message in a few words: no records, nothing that is the same every time."""
    topics = getattr(message, "topics", None) or getattr(message, "responses", None)
    if not topics:
        return f"{message.NAME} {getattr(message, 'error_code', '')}"
    partition = topics[0].partitions[0]
    words = [f"{name}={getattr(partition, name)}" for name in SHOWN_FIELDS if hasattr(partition, name)]
    leader = getattr(partition, "current_leader", None)
    if leader is not None:
        words.append(f"leader={leader.leader_id} epoch={leader.leader_epoch}")
    if hasattr(partition, "diverging_epoch"):
        words.append(f"diverging={partition.diverging_epoch.end_offset} snapshot={partition.snapshot_id.end_offset}")
    return f"{message.NAME} {' '.join(words)}"
