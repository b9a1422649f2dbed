"""Elections, by the sections of the Raft paper and the KIPs that say them."""

from __future__ import annotations

import pytest
from unit.raft.replica_harness import (
    CLUSTER,
    One,
    Quorum,
    begin,
    error,
    granted,
    key_of,
    view,
    vote,
)

from penstock.errors import ErrorCode
from penstock.protocol.messages.begin_quorum_epoch_request import BeginQuorumEpochRequest
from penstock.protocol.messages.end_quorum_epoch_request import EndQuorumEpochRequest
from penstock.protocol.messages.vote_request import VoteRequest
from penstock.protocol.messages.vote_response import VoteResponse
from penstock.raft import messages
from penstock.raft.config import RaftConfig
from penstock.raft.effects import Answer, AppendControl, LeaderChanged, PersistElection
from penstock.raft.election import ElectionState
from penstock.raft.messages import vote_answer
from penstock.raft.states import Candidate, Follower, Leader, Prospective, Resigned, Unattached
from penstock.raft.voters import ReplicaKey

CONFIG = RaftConfig()


def test_a_lost_quorum_state_is_made_up_for_by_the_log() -> None:
    one = One(epochs=[3, 7], election=ElectionState())
    one.start()
    assert one.replica.epoch == 7


# One voter alone


def test_the_only_voter_stands_at_once_and_leads_when_its_vote_is_durable() -> None:
    one = One(1, [1], epochs=[4], durable=False)
    effects = [each for each in one.start() if not isinstance(each, LeaderChanged)]
    assert effects == [PersistElection(ElectionState(5, voted=one.key))]
    assert isinstance(one.replica.role, Candidate)
    effects = one.do(one.replica.election_persisted(one.persisting.pop(0), one.now_ms))
    assert effects[:2] == [PersistElection(ElectionState(5, leader_id=1)), LeaderChanged(1, 5)]
    assert isinstance(effects[2], AppendControl)
    assert one.replica.is_leader


def test_the_only_voter_sends_nothing_to_anybody() -> None:
    one = One(1, [1])
    one.elect()
    assert one.pass_ms(60_000) == []
    assert one.replica.next_deadline_ms() is None


# Section 5.2, leader election; KIP-595, "Vote"


def test_section_5_2_a_voter_grants_one_candidate_an_epoch() -> None:
    one = One()
    one.start()
    assert granted(one.ask(vote(2, 5)))
    assert not granted(one.ask(vote(3, 5)))
    assert granted(one.ask(vote(2, 5)))  # the same question, the same answer
    assert granted(one.ask(vote(3, 6)))


def test_section_5_2_a_vote_is_on_disk_before_it_leaves() -> None:
    one = One(durable=False)
    one.start()
    assert one.ask(vote(2, 5)) is None
    persisting = [each.state for each in one.effects if isinstance(each, PersistElection)]
    assert persisting == [ElectionState(5, voted=key_of(2))]  # the epoch and the vote in one
    left = one.do(one.replica.election_persisted(persisting[0], one.now_ms))
    assert [granted(each.response) for each in left if isinstance(each, Answer)] == [True]


def test_section_5_2_a_vote_is_remembered_after_a_restart() -> None:
    one = One(election=ElectionState(5, voted=key_of(2)))
    one.start()
    assert not granted(one.ask(vote(3, 5)))
    assert granted(one.ask(vote(2, 5)))


def test_section_5_2_a_vote_whose_directory_was_not_written_down_is_the_nodes() -> None:
    one = One(kraft_version=0, election=ElectionState(5, voted=ReplicaKey(2)))
    one.start()
    assert granted(one.ask(vote(2, 5)))
    assert not granted(one.ask(vote(3, 5)))


def test_section_5_2_a_candidate_stands_in_a_new_epoch_after_a_restart() -> None:
    one = One(1, [1], election=ElectionState(5, voted=key_of(1)))
    one.start()
    assert one.replica.epoch == 6


def test_section_5_2_a_candidate_with_a_majority_leads_and_says_so() -> None:
    one = One()
    one.start()
    one.pass_ms(200)
    pre_votes = one.calls(VoteRequest)
    assert [call.target.node_id for call in pre_votes] == [2, 3]
    one.reply(pre_votes[0], messages.vote_answer(ErrorCode.NONE, view(one), granted=True))
    assert isinstance(one.replica.role, Candidate)
    assert one.replica.epoch == 1
    real = [call for call in one.calls(VoteRequest) if not call.request.topics[0].partitions[0].pre_vote]
    one.reply(real[1], messages.vote_answer(ErrorCode.NONE, view(one), granted=True))
    assert isinstance(one.replica.role, Leader)
    assert one.replica.role.granted == (1, 3)
    assert [call.target.node_id for call in one.calls(BeginQuorumEpochRequest)] == [2, 3]


def test_section_5_2_of_five_voters_three_must_agree() -> None:
    one = One(1, [1, 2, 3, 4, 5])
    one.start()
    one.pass_ms(200)
    first, second, *_ = one.calls(VoteRequest)
    one.reply(first, messages.vote_answer(ErrorCode.NONE, view(one), granted=True))
    assert isinstance(one.replica.role, Prospective)
    one.reply(second, messages.vote_answer(ErrorCode.NONE, view(one), granted=True))
    assert isinstance(one.replica.role, Candidate)


def test_section_5_2_a_grant_of_an_earlier_election_does_not_count() -> None:
    one = One(1, [1, 2, 3])
    one.start()
    one.pass_ms(200)
    early = one.calls(VoteRequest)
    one.pass_ms(2_000)  # nobody answers: it gives up, waits, and asks again
    one.pass_ms(3_000)
    assert one.replica.epoch == 0
    assert early[0] not in one.calls(VoteRequest)
    one.reply(early[0], messages.vote_answer(ErrorCode.NONE, view(one), granted=True))
    assert not isinstance(one.replica.role, Candidate)


def test_section_5_2_a_candidate_that_hears_of_the_leader_of_its_epoch_follows_it() -> None:
    one = One()
    one.start()
    one.pass_ms(200)
    one.reply(one.calls(VoteRequest)[0], messages.vote_answer(ErrorCode.NONE, view(one), granted=True))
    assert isinstance(one.replica.role, Candidate)
    assert error(one.ask(begin(2, 1))) == ErrorCode.NONE
    assert isinstance(one.replica.role, Follower)
    assert one.replica.leader_id == 2


def test_section_5_2_candidates_wait_for_times_that_differ() -> None:
    ends = set()
    for node_id in (1, 2, 3, 4, 5):
        one = One(node_id, [1, 2, 3, 4, 5])
        one.start()
        one.ask(vote(9, 5, voter=node_id))  # a new epoch, in which it has voted
        assert isinstance(one.replica.role, Unattached)
        timeout_ms = one.replica.role.deadline_ms - one.now_ms
        assert CONFIG.election_timeout_ms <= timeout_ms < 2 * CONFIG.election_timeout_ms
        ends.add(timeout_ms)
    assert len(ends) == 5


def test_a_quorum_that_starts_as_a_whole_does_not_wait_for_an_election_timeout() -> None:
    quorum = Quorum()
    quorum.start()
    quorum.pass_ms(2 * CONFIG.start_election_ms)
    assert quorum.leader.replica.high_watermark == quorum.leader.log.end_offset


def test_a_quorum_that_starts_again_gives_the_leader_it_knew_a_short_grace() -> None:
    quorum = Quorum(epochs=[1], election=ElectionState(1, leader_id=2))
    quorum.cut.add(2)
    quorum.start()
    quorum.pass_ms(CONFIG.leader_grace_ms * 3 // 2 + 50)
    assert quorum.leader.key.id != 2


def test_a_voter_that_starts_among_others_that_are_well_changes_nothing() -> None:
    quorum = Quorum()
    quorum.start()
    quorum.pass_ms(4_000)
    leader, epoch = quorum.leader, quorum.leader.replica.epoch
    node_id = next(node_id for node_id, one in quorum.ones.items() if one is not leader)
    started = One(node_id)
    started.now_ms = leader.now_ms
    quorum.ones[node_id] = started
    quorum.act(node_id, started.start())
    quorum.pass_ms(2_000)
    assert quorum.leader is leader
    assert leader.replica.epoch == epoch
    assert started.log.batches == leader.log.batches


def test_section_5_1_an_earlier_epoch_is_refused_and_a_later_one_taken_over() -> None:
    one = One(epochs=[3])
    one.start()
    assert error(one.ask(vote(2, 2, last=(1, 9)))) == ErrorCode.FENCED_LEADER_EPOCH
    assert error(one.ask(begin(2, 2))) == ErrorCode.FENCED_LEADER_EPOCH
    assert one.replica.epoch == 3
    one.ask(vote(2, 9, last=(0, 0)))
    assert one.replica.epoch == 9


def test_section_5_1_a_leader_that_hears_of_a_later_epoch_steps_down() -> None:
    one = One()
    one.elect()
    assert one.replica.is_leader
    one.ask(vote(2, one.replica.epoch + 1, last=(0, 0)))
    assert not one.replica.is_leader
    changed = [each for each in one.effects if isinstance(each, LeaderChanged)]
    assert changed[-1] == LeaderChanged(None, one.replica.epoch)


def test_section_5_2_a_vote_that_was_split_among_the_living_costs_no_election_timeout() -> None:
    """Two of three are left, and both stand at once: neither waits for the one that has died."""
    one = One()
    one.start()
    one.pass_ms(200)
    one.reply(one.calls(VoteRequest)[0], messages.vote_answer(ErrorCode.NONE, view(one), granted=True))
    two, three = [call for call in one.calls(VoteRequest) if not call.request.topics[0].partitions[0].pre_vote]
    one.reply(three, None)
    assert isinstance(one.replica.role, Candidate)
    assert not one.replica.role.backing_off, "node 2 may still vote for it"
    one.reply(two, messages.vote_answer(ErrorCode.NONE, view(one), granted=False))
    one.pass_ms(CONFIG.retry_backoff_ms)
    assert isinstance(one.replica.role, Prospective), "the next attempt"
    assert one.replica.epoch == 1


# Section 5.4.1, election restriction


@pytest.mark.parametrize(
    ("last", "expected"),
    [((2, 3), True), ((2, 4), True), ((3, 1), True), ((2, 2), False), ((1, 99), False)],
)
def test_section_5_4_1_a_vote_needs_a_log_at_least_as_long(last: tuple[int, int], expected: bool) -> None:
    one = One(epochs=[1, 2, 2])
    one.start()
    assert granted(one.ask(vote(2, 9, last=last, pre=True))) == expected
    assert granted(one.ask(vote(2, 9, last=last))) == expected


def test_a_vote_request_that_makes_no_sense_is_refused() -> None:
    one = One()
    one.start()
    assert error(one.ask(vote(2, 5, last=(5, 3)))) == ErrorCode.INVALID_REQUEST  # its log is of its own epoch already
    assert error(one.ask(vote(2, 5, last=(5, 3), pre=True))) == ErrorCode.NONE
    assert error(one.ask(vote(-1, 5))) == ErrorCode.INVALID_REQUEST
    assert error(one.ask(vote(2, 5, last=(0, -1)))) == ErrorCode.INVALID_REQUEST
    foreign = vote(2, 5)
    foreign.cluster_id = "another"
    assert one.ask(foreign).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    foreign.cluster_id, foreign.topics = None, []
    assert one.ask(foreign).error_code == ErrorCode.INVALID_REQUEST


# KIP-996, pre-vote


def test_kip_996_a_pre_vote_changes_nothing() -> None:
    one = One()
    one.start()
    assert granted(one.ask(vote(2, 0, pre=True)))
    assert granted(one.ask(vote(3, 0, pre=True)))
    assert one.replica.epoch == 0
    assert not [each for each in one.effects if isinstance(each, PersistElection)]


def test_kip_996_who_hears_the_leader_refuses_a_pre_vote() -> None:
    quorum = Quorum()
    quorum.start()
    quorum.pass_ms(4_000)
    leader = quorum.leader
    followers = [one for one in quorum.ones.values() if one is not leader]
    log_end = (followers[0].log.last_epoch, followers[0].log.end_offset)
    asked = vote(followers[1].key.id, leader.replica.epoch, last=log_end, pre=True, voter=followers[0].key.id)
    assert not granted(followers[0].ask(asked))
    asked.topics[0].partitions[0].voter_directory_id = leader.key.directory_id
    asked.voter_id = leader.key.id
    assert not granted(leader.ask(asked))


def test_kip_996_a_voter_that_was_cut_off_deposes_nobody() -> None:
    quorum = Quorum()
    quorum.start()
    quorum.pass_ms(4_000)
    leader, epoch = quorum.leader, quorum.leader.replica.epoch
    away = next(node_id for node_id, one in quorum.ones.items() if one is not leader)
    quorum.cut.add(away)
    quorum.pass_ms(20_000)
    quorum.append(3)
    quorum.cut.clear()
    quorum.pass_ms(6_000)
    assert quorum.leader is leader
    assert leader.replica.epoch == epoch
    assert quorum.ones[away].log.end_offset == leader.log.end_offset


# Check-quorum: section 6.2 of Ongaro's dissertation


def test_check_quorum_a_leader_that_hears_from_no_majority_resigns() -> None:
    one = One()
    one.elect()
    one.pass_ms(CONFIG.check_quorum_timeout_ms - 1)
    assert one.replica.is_leader
    one.pass_ms(1)
    assert isinstance(one.replica.role, Resigned)
    assert one.replica.leader_id is None


def test_check_quorum_a_majority_that_fetches_keeps_the_leader() -> None:
    quorum = Quorum()
    quorum.start()
    quorum.pass_ms(4_000)
    leader = quorum.leader
    quorum.cut.add(next(node_id for node_id, one in quorum.ones.items() if one is not leader))
    quorum.pass_ms(10_000)
    assert quorum.leader is leader


# KIP-595, BeginQuorumEpoch and EndQuorumEpoch


def test_begin_quorum_epoch_is_sent_to_those_that_do_not_fetch() -> None:
    one = One()
    one.elect()
    calls = one.calls(BeginQuorumEpochRequest)
    assert calls == []  # `elect` threw the first ones away
    one.ask(messages.fetch(CLUSTER, key_of(2), 1, offset=0, last_epoch=0, high_watermark=None, max_wait_ms=0,
                           max_bytes=1))  # fmt: skip
    for number in list(one.replica._core.calls):
        one.do(one.replica.answered(number, None, one.now_ms))
    one.pass_ms(CONFIG.begin_epoch_interval_ms - 1)
    one.ask(messages.fetch(CLUSTER, key_of(2), 1, offset=1, last_epoch=1, high_watermark=None, max_wait_ms=0,
                           max_bytes=1))  # fmt: skip
    one.pass_ms(2)
    assert [call.target.node_id for call in one.calls(BeginQuorumEpochRequest)] == [3]


def test_begin_quorum_epoch_of_two_leaders_of_an_epoch_is_refused() -> None:
    one = One()
    one.start()
    assert error(one.ask(begin(2, 5))) == ErrorCode.NONE
    assert error(one.ask(begin(3, 5))) == ErrorCode.INVALID_REQUEST
    assert error(one.ask(begin(1, 6))) == ErrorCode.INVALID_REQUEST
    assert one.replica.leader_id == 2


def test_end_quorum_epoch_the_first_successor_does_not_wait() -> None:
    for position, successors in enumerate([(1, 3), (3, 1), (3,)]):
        one = One()
        one.start()
        one.ask(begin(2, 5))
        keys = tuple(key_of(each) for each in successors)
        response = one.ask(messages.end_quorum_epoch(CLUSTER, 2, 5, keys, ()))
        assert error(response) == ErrorCode.NONE
        assert isinstance(one.replica.role, Prospective if position == 0 else Follower)


def test_end_quorum_epoch_a_leader_that_resigns_hands_over_to_who_is_furthest() -> None:
    quorum = Quorum()
    quorum.start()
    quorum.pass_ms(4_000)
    leader = quorum.leader
    behind = next(node_id for node_id, one in quorum.ones.items() if one is not leader)
    quorum.cut.add(behind)
    quorum.append(5)
    quorum.cut.clear()
    before_ms = leader.now_ms
    effects = leader.do(leader.replica.resign(leader.now_ms))
    assert len([call for call in leader.calls(EndQuorumEpochRequest) if call in effects]) == 2
    quorum.act(leader.key.id, effects)
    quorum.pass_ms(50)
    assert quorum.leader is not leader
    assert quorum.leader.key.id != behind
    assert quorum.leader.now_ms - before_ms <= 50


def test_a_leader_that_stops_is_gone_when_the_others_have_heard() -> None:
    quorum = Quorum()
    quorum.start()
    quorum.pass_ms(4_000)
    leader = quorum.leader
    effects = leader.do(leader.replica.stop(leader.now_ms))
    assert not leader.replica.stopped
    quorum.act(leader.key.id, effects)
    assert leader.replica.stopped
    quorum.pass_ms(10_000)
    assert not leader.replica.is_leader
    assert isinstance(leader.replica.role, Follower)


def test_a_leader_that_stops_does_not_wait_for_who_cannot_be_told() -> None:
    quorum = Quorum()
    quorum.start()
    quorum.pass_ms(4_000)
    leader = quorum.leader
    away = next(node_id for node_id, one in quorum.ones.items() if one is not leader)
    quorum.cut.add(away)
    quorum.act(leader.key.id, leader.do(leader.replica.stop(leader.now_ms)))
    assert not leader.replica.stopped
    quorum.pass_ms(5)
    assert leader.replica.stopped


def test_a_leader_that_stops_waits_a_while_for_who_does_not_answer_and_no_longer() -> None:
    quorum = Quorum()
    quorum.start()
    quorum.pass_ms(4_000)
    leader = quorum.leader
    leader.do(leader.replica.stop(leader.now_ms))  # what it says is heard by nobody
    began_ms = leader.now_ms
    while not leader.replica.stopped:
        deadline_ms = leader.replica.next_deadline_ms()
        assert deadline_ms is not None
        assert deadline_ms > leader.now_ms
        leader.now_ms = deadline_ms
        leader.do(leader.replica.tick(deadline_ms))
    assert leader.now_ms - began_ms <= 2_000
    assert leader.replica.next_deadline_ms() is None


# Directory ids: KIP-853


def test_kip_853_a_request_for_another_directory_of_this_node_is_refused() -> None:
    one = One()
    one.start()
    meant_for_lost_disk = vote(2, 5)
    meant_for_lost_disk.topics[0].partitions[0].voter_directory_id = key_of(9).directory_id
    assert error(one.ask(meant_for_lost_disk)) == ErrorCode.INVALID_VOTER_KEY
    another = begin(2, 5)
    another.topics[0].partitions[0].voter_directory_id = key_of(9).directory_id
    assert error(one.ask(another)) == ErrorCode.INVALID_VOTER_KEY


def test_kip_996_a_voter_that_knows_no_pre_votes_refuses_none() -> None:
    one = One(1, [1, 2, 3])
    one.start()
    one.pass_ms(1_000)
    assert isinstance(one.replica.role, Prospective)
    one.reply(one.calls(VoteRequest)[0], VoteResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))
    assert isinstance(one.replica.role, Candidate)
    assert not any(call.request.topics[0].partitions[0].pre_vote for call in one.calls(VoteRequest))  # type: ignore[attr-defined]


def test_a_vote_that_is_not_understood_is_none() -> None:
    one = One(1, [1, 2, 3])
    one.start()
    one.pass_ms(1_000)
    one.reply(one.calls(VoteRequest)[0], vote_answer(ErrorCode.NONE, view(one), granted=True))
    assert isinstance(one.replica.role, Candidate)
    one.reply(one.calls(VoteRequest)[0], VoteResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))
    assert isinstance(one.replica.role, Candidate)
