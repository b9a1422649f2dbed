"""A quorum with a topic of its own: its requests, answers and files are named after it, and it heeds no others'."""

from __future__ import annotations

from random import Random
from uuid import UUID

from penstock.config.server import Settings
from penstock.log import partition_metadata
from penstock.protocol.message import Message
from penstock.protocol.messages.fetch_request import FetchRequest
from penstock.protocol.messages.vote_request import VoteRequest
from penstock.raft import messages
from penstock.raft.checkpoint import CheckpointId
from penstock.raft.config import RaftConfig
from penstock.raft.core import Identity
from penstock.raft.driver import Driver, read
from penstock.raft.effects import Answer, Call, Committed, Effect, LeaderChanged
from penstock.raft.history import QuorumHistory
from penstock.raft.storage import Storage
from penstock.raft.topic import METADATA, QuorumTopic
from penstock.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from penstock.records.builder import BatchBuilder
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

    def failed(self, error: Exception, now_ms: int, *, raised: bool = False) -> None:
        raise error

    def performed(self, now_ms: int) -> None: ...


def test_its_files_are_in_a_directory_of_its_name_with_its_id() -> None:
    member = Member(voters=1)
    assert {path.split("/")[0] for path in member.disk.paths()} == {"__guardian_state-0"}
    assert (
        partition_metadata.decode(member.disk.content("__guardian_state-0/partition.metadata"), "the file")
        == OWN.topic_id
    )


def test_what_it_appends_is_committed() -> None:
    member = Member(voters=1)
    assert member.driver.replica.is_leader
    base_offset = member.driver.storage.end_offset
    builder = BatchBuilder(base_offset=base_offset, leader_epoch=member.driver.replica.epoch)
    builder.append(NOW_MS, None, b"a plan")
    member.driver.append(builder.build(), base_offset + 1, NOW_MS)
    member.run()
    assert member.committed_offset == base_offset + 1


def test_it_asks_for_votes_and_records_of_its_topic() -> None:
    member = Member(voters=3)
    member.wait(60_000)
    assert member.calls
    for call in member.calls:
        assert isinstance(call.request, VoteRequest | FetchRequest)
        assert messages.partition_of(call.request, OWN) is not None
        assert messages.partition_of(call.request, METADATA) is None


def test_it_answers_for_its_topic_alone() -> None:
    def vote(topic: QuorumTopic) -> VoteRequest:
        return messages.vote(
            CLUSTER, key(2), ReplicaKey(1), 99, last_epoch=3, end_offset=9, pre_vote=False, topic=topic
        )

    member = Member(voters=3)
    own, other = member.ask(vote(OWN), 1), member.ask(vote(METADATA), 1)
    assert own.error_code == 0  # type: ignore[attr-defined]
    assert messages.partition_of(own, OWN).vote_granted  # type: ignore[union-attr]
    assert other.error_code != 0  # type: ignore[attr-defined]
