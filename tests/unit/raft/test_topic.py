"""A quorum with a topic of its own: its requests, answers and files are named after it, and it heeds no others'."""

from __future__ import annotations

from support.quorum_member import CLUSTER, NOW_MS, OWN, Member, key

from penstock.log import partition_metadata
from penstock.protocol.messages.fetch_request import FetchRequest
from penstock.protocol.messages.vote_request import VoteRequest
from penstock.raft import messages
from penstock.raft.topic import METADATA, QuorumTopic
from penstock.raft.voters import ReplicaKey
from penstock.records.builder import BatchBuilder


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
