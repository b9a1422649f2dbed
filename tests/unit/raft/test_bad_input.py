"""What must not reach a quorum: another cluster, another disk, another time."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from unit.raft.replica_harness import CLUSTER, LISTENER, One, Quorum, key_of, voter_of

from penstock.errors import ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages.vote_request import VoteRequest
from penstock.raft import messages
from penstock.raft.checkpoint import CheckpointId
from penstock.raft.effects import Answer
from penstock.raft.states import Candidate, Prospective
from penstock.raft.voters import ReplicaKey, VoterEndpoint

FOREIGN = "another-cluster"


def requests(cluster_id: str | None, epoch: int) -> dict[str, Message]:
    """One request of each API of the quorum; each would change something if it were heeded."""
    key, endpoints = key_of(2), (VoterEndpoint(LISTENER, "host-2", 9093),)
    return {
        "Vote": messages.vote(
            cluster_id, key, key_of(1), epoch + 5, last_epoch=epoch, end_offset=1_000, pre_vote=False
        ),
        "BeginQuorumEpoch": messages.begin_quorum_epoch(cluster_id, 2, epoch + 5, key_of(1), endpoints),
        "EndQuorumEpoch": messages.end_quorum_epoch(cluster_id, 2, epoch + 5, (key_of(1),), endpoints),
        "Fetch": messages.fetch(
            cluster_id, key, epoch, offset=1, last_epoch=epoch, high_watermark=None, max_wait_ms=0, max_bytes=1
        ),
        "FetchSnapshot": messages.fetch_snapshot(
            cluster_id, key, epoch, CheckpointId(1, 1), position=0, max_bytes=1_000
        ),
        "AddRaftVoter": messages.add_voter(cluster_id, voter_of(4), timeout_ms=1_000),
        "RemoveRaftVoter": messages.remove_voter(cluster_id, key_of(3)),
        "UpdateRaftVoter": messages.update_voter(cluster_id, epoch, voter_of(2)),
    }


@pytest.mark.parametrize("name", requests(None, 1))
def test_a_request_of_another_cluster_changes_nothing_and_is_told_so(name: str) -> None:
    one = One()
    one.elect()
    epoch, role, end_offset = one.replica.epoch, one.replica.role, one.log.end_offset
    effects = one.do(one.replica.handle(requests(FOREIGN, epoch)[name], 1, one.now_ms, "token"))
    (answer,) = effects
    assert isinstance(answer, Answer)
    response: Any = answer.response
    assert response.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert (one.replica.epoch, one.replica.role, one.log.end_offset) == (epoch, role, end_offset)
    assert one.replica.high_watermark is None


@pytest.mark.parametrize("name", requests(None, 1))
def test_a_request_that_names_no_cluster_is_heeded(name: str) -> None:
    one = One()
    one.elect()
    (answer, *_) = [
        each
        for each in one.do(one.replica.handle(requests(None, one.replica.epoch)[name], 1, one.now_ms, "token"))
        if isinstance(each, Answer)
    ]
    response: Any = answer.response
    assert response.error_code != ErrorCode.INCONSISTENT_CLUSTER_ID


# A voter with an empty disk


def vote(candidate: int, epoch: int, voter: ReplicaKey) -> VoteRequest:
    return messages.vote(CLUSTER, key_of(candidate), voter, epoch, last_epoch=0, end_offset=0, pre_vote=False)


def granted(response: Any) -> bool:
    partition = response.topics[0].partitions[0]
    return bool(partition.vote_granted)


def test_a_static_voter_with_an_empty_disk_votes_since_nobody_can_tell() -> None:
    one = One(kraft_version=0)
    one.start()
    assert one.replica.is_voter
    assert granted(one.ask(vote(2, 7, ReplicaKey(1))))
    assert not granted(one.ask(vote(3, 7, ReplicaKey(1))))


def with_a_new_disk(quorum: Quorum, node_id: int) -> One:
    """The node comes back with nothing but a new directory."""
    one = One(node_id, list(quorum.ones))
    core = one.replica._core
    one.key = core.local = ReplicaKey(node_id, UUID(int=0xEE00 + node_id))
    core.history.start_at(0, None, 0)
    quorum.ones[node_id] = one
    return one


def test_a_dynamic_voter_with_an_empty_disk_is_another_one() -> None:
    quorum = Quorum()
    quorum.start()
    quorum.pass_ms(4_000)
    leader = quorum.leader
    lost, other = [one.key.id for one in quorum.ones.values() if one is not leader]
    empty = with_a_new_disk(quorum, lost)
    refused = empty.ask(vote(leader.key.id, 9, key_of(lost)))
    assert refused.topics[0].partitions[0].error_code == ErrorCode.INVALID_VOTER_KEY
    quorum.act(lost, empty.start())
    quorum.cut.add(other)
    leader.append()
    before = leader.replica.high_watermark
    quorum.pass_ms(1_500)
    assert leader.replica.high_watermark == before, "it has the log, and does not count"
    assert not empty.replica.is_voter
    assert not isinstance(empty.replica.role, Prospective | Candidate)


# Clocks


@pytest.mark.parametrize("step_ms", [3_600_000, 86_400_000 * 365])
def test_a_follower_whose_clock_leaps_disturbs_nobody(step_ms: int) -> None:
    quorum = Quorum()
    quorum.start()
    quorum.pass_ms(4_000)
    leader = quorum.leader
    epoch = leader.replica.epoch
    leaping = next(one for one in quorum.ones.values() if one is not leader)
    leaping.now_ms += step_ms
    quorum.pass_ms(5_000)
    assert quorum.leader is leader
    assert {one.replica.epoch for one in quorum.ones.values()} == {epoch}
    assert leaping.replica.leader_id == leader.key.id


def test_a_leader_whose_clock_leaps_is_followed_by_one_leader() -> None:
    quorum = Quorum()
    quorum.start()
    quorum.pass_ms(4_000)
    leader = quorum.leader
    leader.now_ms += 3_600_000
    quorum.pass_ms(10_000)
    quorum.append()
    quorum.pass_ms(1_000)
    assert {one.log.end_offset for one in quorum.ones.values()} == {quorum.leader.log.end_offset}
    assert {one.replica.high_watermark for one in quorum.ones.values()} == {quorum.leader.log.end_offset}
