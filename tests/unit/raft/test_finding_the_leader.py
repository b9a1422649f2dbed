"""How a replica finds the leader: at its start, when the leader is gone, and when it has moved."""

from __future__ import annotations

from dataclasses import replace

from unit.raft.replica_harness import (
    CLUSTER,
    LISTENER,
    One,
    Quorum,
    begin,
    granted,
    key_of,
    view,
    vote,
)

from penstock.errors import ErrorCode
from penstock.protocol.messages.fetch_request import FetchRequest
from penstock.protocol.messages.fetch_response import PartitionData
from penstock.protocol.messages.vote_request import VoteRequest
from penstock.raft import messages
from penstock.raft.config import RaftConfig
from penstock.raft.effects import Answer, Call, Target
from penstock.raft.messages import LeaderView
from penstock.raft.states import Follower, Prospective
from penstock.raft.voters import VoterEndpoint

CONFIG = RaftConfig()


# Finding the leader


def test_an_observer_asks_the_voters_until_it_finds_the_leader() -> None:
    quorum = Quorum([1, 2, 3], observers=[7])
    quorum.start()
    quorum.pass_ms(5_000)
    observer = quorum.ones[7]
    assert observer.replica.leader_id == quorum.leader.key.id
    assert not observer.replica.is_voter
    assert observer.calls(VoteRequest) == []
    assert observer.log.end_offset == quorum.leader.log.end_offset


def test_an_observer_follows_the_next_leader() -> None:
    quorum = Quorum([1, 2, 3], observers=[7])
    quorum.start()
    quorum.pass_ms(5_000)
    first = quorum.leader
    quorum.cut.add(first.key.id)
    quorum.pass_ms(15_000)
    second = quorum.leader
    assert second is not first
    assert quorum.ones[7].replica.leader_id == second.key.id


def test_a_follower_of_nobody_does_not_ask_in_a_loop() -> None:
    one = One(1, [1, 2, 3])
    one.start()
    one.ask(begin(2, 5))
    fetch = one.calls(FetchRequest)[-1]
    partition = PartitionData(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    effects = one.reply(fetch, messages.fetch_answer(view(one, 2, 5), partition))
    assert not [each for each in effects if isinstance(each, Call)]
    assert one.replica.next_deadline_ms() == one.now_ms + CONFIG.retry_backoff_ms


def test_an_observer_whose_connection_broke_hears_of_the_next_leader_from_the_voters() -> None:
    quorum = Quorum([1, 2, 3], observers=[7])
    quorum.start()
    quorum.pass_ms(5_000)
    first, observer = quorum.leader, quorum.ones[7]
    quorum.cut.add(first.key.id)
    for node_id, one in quorum.ones.items():
        if one is not first:
            quorum.act(node_id, one.do(one.replica.leader_link_lost(one.now_ms)))
    waited_ms = 0
    while not any(one.replica.is_leader for one in quorum.ones.values() if one is not first):
        quorum.pass_ms(5)
        waited_ms += 5
    quorum.pass_ms(200)
    assert waited_ms < 1_000
    assert observer.replica.leader_id == quorum.leader.key.id


def test_an_observer_that_suspects_a_leader_that_lives_stays_with_it() -> None:
    quorum = Quorum([1, 2, 3], observers=[7])
    quorum.start()
    quorum.pass_ms(5_000)
    observer = quorum.ones[7]
    quorum.act(7, observer.do(observer.replica.leader_link_lost(observer.now_ms)))
    quorum.pass_ms(3_000)
    assert observer.replica.leader_id == quorum.leader.key.id
    assert isinstance(observer.replica.role, Follower)
    assert not observer.replica.role.suspected


def test_an_observer_does_not_wait_for_a_node_that_is_silent() -> None:
    one = One(7, [1, 2, 3], stands=False)
    one.start()
    one.pass_ms(CONFIG.request_timeout_ms - 1)
    assert [call.target.node_id for call in one.calls(FetchRequest)] == [1, 2, 3]


def test_who_does_not_know_the_leader_is_not_asked_in_a_loop() -> None:
    one = One(7, [1, 2, 3], stands=False)
    one.start()
    asked = 0
    for _ in range(1_000 // 5):
        for call in one.calls(FetchRequest):
            asked += 1
            partition = PartitionData(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
            one.reply(call, messages.fetch_answer(view(one, -1, 0), partition))
        one.pass_ms(5)
    assert 12 <= asked <= 15  # each of three in 200 ms


def test_a_replica_whose_voters_have_all_moved_asks_the_bootstrap_servers() -> None:
    one = One(7, [1, 2, 3], stands=False)
    core = one.replica._core
    core.identity = replace(
        core.identity, bootstrap=[*core.identity.bootstrap, Target(-2, "elsewhere", 9093, LISTENER)]
    )
    one.start()
    one.pass_ms(CONFIG.request_timeout_ms - 1)
    assert [call.target.node_id for call in one.calls(FetchRequest)] == [1, 2, 3, -2]


def test_the_leader_that_was_found_is_fetched_from_at_once() -> None:
    one = One(7, [1, 2, 3], stands=False)
    one.start()
    (asked,) = one.calls(FetchRequest)
    answer = messages.fetch_answer(view(one, 1, 4), PartitionData(high_watermark=-1))
    effects = one.reply(asked, answer)
    assert [each.target.node_id for each in effects if isinstance(each, Call)] == [1]


def test_a_leader_that_has_moved_is_followed_where_it_is() -> None:
    one = One(1, [1, 2, 3])
    one.start()
    one.ask(begin(2, 5))
    elsewhere = (VoterEndpoint(LISTENER, "elsewhere", 9094),)
    one.ask(messages.begin_quorum_epoch(CLUSTER, 2, 5, key_of(1), elsewhere))
    assert isinstance(one.replica.role, Follower)
    assert one.replica.role.target == Target(2, "elsewhere", 9094, LISTENER)


def test_an_observer_hears_from_others_that_the_leader_has_moved() -> None:
    one = One(7, [1, 2, 3], stands=False)
    one.start()
    first = one.calls(FetchRequest)[0]
    one.reply(first, messages.fetch_answer(view(one, 2, 5), PartitionData(error_code=ErrorCode.FENCED_LEADER_EPOCH)))
    one.pass_ms(50)
    (to_leader,) = [call for call in one.calls(FetchRequest) if call.target.node_id == 2]
    one.reply(to_leader, None)
    one.pass_ms(50)
    other = next(call for call in one.calls(FetchRequest) if call.target.node_id != 2)
    there = LeaderView(2, 5, Target(2, "elsewhere", 9094, LISTENER))
    one.reply(other, messages.fetch_answer(there, PartitionData(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)))
    assert isinstance(one.replica.role, Follower)
    assert one.replica.role.target.host == "elsewhere"


def test_a_leader_that_answers_is_not_left_for_another_name_of_it() -> None:
    one = One(1, [1, 2, 3])
    one.start()
    one.ask(begin(2, 5))
    call = one.calls(FetchRequest)[-1]
    one.reply(call, messages.fetch_answer(view(one, 2, 5), PartitionData(high_watermark=0)))
    elsewhere = (VoterEndpoint(LISTENER, "alias", 9093),)
    one.ask(messages.begin_quorum_epoch(CLUSTER, 2, 5, key_of(1), elsewhere))
    assert isinstance(one.replica.role, Follower)
    assert one.replica.role.target.host == "host-2"


def test_a_leader_names_the_listener_by_which_it_is_asked() -> None:
    """As while controllers change from one listener to another, one by one: each node calls by the one it knows."""
    one = One(1, [1, 2, 3], listeners=(LISTENER, "SECURED"))
    one.elect()
    asked = vote(2, one.replica.epoch)

    def told(listener: str | None) -> list[tuple[str, int]]:
        return [(each.host, each.port) for each in one.ask(asked, listener=listener).node_endpoints]

    assert told(None) == told(LISTENER) == [("host-1", 9093)]
    assert told("SECURED") == [("host-1", 9094)]
    assert told("OTHER") == []
    fetched = messages.fetch(
        CLUSTER, key_of(7), one.replica.epoch, offset=one.log.end_offset, last_epoch=one.log.last_epoch,
        high_watermark=None, max_wait_ms=500, max_bytes=1,
    )  # fmt: skip
    assert one.ask(fetched, token="parked", listener="SECURED") is None
    answers = {each.token: each.response for each in one.pass_ms(500) if isinstance(each, Answer)}
    assert [each.port for each in answers["parked"].node_endpoints] == [9094]


def test_a_follower_tells_no_address_of_a_listener_of_which_it_knows_nothing() -> None:
    one = One(1, [1, 2, 3], listeners=(LISTENER, "SECURED"))
    one.start()
    one.ask(begin(2, 5))
    asked = vote(3, 5)
    assert [each.host for each in one.ask(asked, listener=LISTENER).node_endpoints] == ["host-2"]
    answer = one.ask(asked, listener="SECURED")
    assert answer.topics[0].partitions[0].leader_id == 2
    assert answer.node_endpoints == []


# A leader whose connection broke


def test_a_leader_at_which_nobody_listens_has_the_same_grace() -> None:
    one = One(1, [1, 2, 3])
    one.start()
    one.ask(begin(2, 5))
    one.reply(one.calls(FetchRequest)[-1], None)
    assert isinstance(one.replica.role, Follower)
    one.pass_ms(CONFIG.leader_grace_ms * 3 // 2)
    assert isinstance(one.replica.role, Prospective)


def test_who_suspects_the_leader_does_not_speak_for_it() -> None:
    quorum = Quorum()
    quorum.start()
    quorum.pass_ms(4_000)
    leader = quorum.leader
    first, second = [one for one in quorum.ones.values() if one is not leader]
    asked = vote(
        second.key.id, first.replica.epoch, last=(first.log.last_epoch, first.log.end_offset), pre=True,
        voter=first.key.id,
    )  # fmt: skip
    assert not granted(first.ask(asked))
    first.do(first.replica.leader_link_lost(first.now_ms))
    assert granted(first.ask(asked))


def test_a_dead_leader_is_followed_by_another_within_the_grace() -> None:
    quorum = Quorum()
    quorum.start()
    quorum.pass_ms(4_000)
    dead = quorum.leader
    quorum.cut.add(dead.key.id)
    for node_id, one in quorum.ones.items():
        if one is not dead:
            quorum.act(node_id, one.do(one.replica.leader_link_lost(one.now_ms)))
    quorum.pass_ms(CONFIG.leader_grace_ms * 3 // 2 + 10)
    assert quorum.leader is not dead
