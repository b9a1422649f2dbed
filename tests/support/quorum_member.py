"""A member of a quorum of its own topic, driven by raft.driver on a disk of its own."""

from __future__ import annotations

from random import Random
from uuid import UUID

from penstock.config.server import Settings
from penstock.protocol.message import Message
from penstock.raft.checkpoint import CheckpointId
from penstock.raft.config import RaftConfig
from penstock.raft.core import Identity
from penstock.raft.driver import Driver, read
from penstock.raft.effects import Answer, Call, Committed, Effect, LeaderChanged
from penstock.raft.history import QuorumHistory
from penstock.raft.storage import Storage
from penstock.raft.topic import QuorumTopic
from penstock.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from penstock.records.wall import WallTime
from simulator.world.disk import SimulatedDisk

OWN = QuorumTopic("__guardian_state", UUID(int=77))
CLUSTER = "the-cluster"
NOW_MS = 1_800_000_000_000


def key(node_id: int) -> ReplicaKey:
    return ReplicaKey(node_id, UUID(int=1000 + node_id))


class Member:
    """A driven replica on a disk of its own, with a state machine that counts what is committed."""

    def __init__(self, voters: int, topic: QuorumTopic = OWN) -> None:
        self.disk = SimulatedDisk()
        self.now_ms = NOW_MS
        self.committed_offset = 0
        self.calls: list[Call] = []
        self.answers: list[Message] = []
        self.topic = topic
        self.voters = VoterSet(
            Voter(ReplicaKey(each), (VoterEndpoint("CONTROLLER", f"host{each}", 9093),))
            for each in range(1, voters + 1)
        )
        self.driver = Driver(
            self.disk,
            Settings.for_node(1),
            self,
            self._prepare,
            config=RaftConfig(),
            randoms=(Random(1), Random(2)),
            wall=WallTime(),
            now_ms=NOW_MS,
            topic=topic,
        )
        self.driver.start(NOW_MS)
        self.run()

    def _prepare(self, storage: Storage) -> tuple[Identity, QuorumHistory]:
        return Identity(key(1), CLUSTER, topic=self.topic), read(storage, self.voters).history

    def run(self) -> None:
        while operations := self.driver.storage.take_operations(self.now_ms):
            for operation in operations:
                operation.owner.operation_completed(operation, operation.run(self.disk), self.now_ms)

    def wait(self, duration_ms: int) -> None:
        self.now_ms += duration_ms
        self.driver.hear(lambda: self.driver.replica.tick(self.now_ms), self.now_ms)
        self.run()

    def ask(self, request: Message, version: int) -> Message:
        self.driver.handle(request, version, "asked", self.now_ms)
        self.run()
        return self.answers[-1]

    # raft.driver.Host

    def carries_out(self, effect: Effect) -> None: ...

    def control_appended(self, batch: bytearray, last_offset: int, epoch: int, now_ms: int) -> None: ...

    def committed(self, committed: Committed, now_ms: int) -> None:
        self.committed_offset = committed.high_watermark

    def load_snapshot(self, snapshot: CheckpointId, now_ms: int) -> None: ...

    def leader_changed(self, changed: LeaderChanged, now_ms: int) -> None: ...

    def call(self, call: Call, now_ms: int) -> None:
        self.calls.append(call)

    def answer(self, answer: Answer, now_ms: int) -> None:
        self.answers.append(answer.response)

    def truncated(self, now_ms: int) -> None: ...

    def checkpoint_written(self, checkpoint: CheckpointId, now_ms: int) -> None: ...

    def checkpoint_found_no_room(self, now_ms: int) -> None: ...

    def has_no_room(self, error: OSError, now_ms: int) -> None: ...

    def has_room(self, now_ms: int) -> None: ...

    def failed(self, error: Exception, now_ms: int, *, raised: bool = False) -> None:
        raise error

    def performed(self, now_ms: int) -> None: ...
