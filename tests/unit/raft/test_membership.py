"""Changes of the voters (KIP-853, kraft.version 1), one at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from unit.raft.replica_harness import CLUSTER, LISTENER, One, Quorum, key_of, target_of, voter_of

from penstock.errors import ErrorCode, RequestError
from penstock.protocol.message import ZERO_UUID
from penstock.protocol.messages.add_raft_voter_request import AddRaftVoterRequest, Listener
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.api_versions_response import ApiVersionsResponse, SupportedFeatureKey
from penstock.protocol.messages.fetch_request import FetchRequest
from penstock.protocol.messages.fetch_response import PartitionData
from penstock.protocol.messages.kraft_version_record import KRaftVersionRecord
from penstock.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from penstock.protocol.messages.update_raft_voter_request import UpdateRaftVoterRequest
from penstock.protocol.messages.update_raft_voter_response import CurrentLeader, UpdateRaftVoterResponse
from penstock.protocol.messages.vote_request import VoteRequest
from penstock.protocol.messages.voters_record import VotersRecord
from penstock.raft import messages
from penstock.raft.config import RaftConfig
from penstock.raft.effects import Answer, AppendControl, Call
from penstock.raft.history import BOOTSTRAP_OFFSET, QuorumHistory
from penstock.raft.messages import LeaderView
from penstock.raft.states import Candidate, Prospective, Resigned
from penstock.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet


def add(node_id: int, **changes: Any) -> AddRaftVoterRequest:
    request = AddRaftVoterRequest(
        cluster_id=CLUSTER,
        timeout_ms=1000,
        voter_id=node_id,
        voter_directory_id=key_of(node_id).directory_id,
        listeners=[Listener(name=LISTENER, host=f"host-{node_id}", port=9093)],
    )
    for name, value in changes.items():
        setattr(request, name, value)
    return request


def remove(node_id: int) -> RemoveRaftVoterRequest:
    return RemoveRaftVoterRequest(cluster_id=CLUSTER, voter_id=node_id, voter_directory_id=key_of(node_id).directory_id)


def supports(lowest: int = 0, highest: int = 1) -> ApiVersionsResponse:
    feature = SupportedFeatureKey(name="kraft.version", min_version=lowest, max_version=highest)
    return ApiVersionsResponse(supported_features=[feature])


def fetch(one: One, node_id: int) -> None:
    """A replica shows that it has all of the leader's log."""
    request = messages.fetch(
        CLUSTER, key_of(node_id), one.replica.epoch, offset=one.log.end_offset, last_epoch=one.log.last_epoch,
        high_watermark=None, max_wait_ms=0, max_bytes=1,
    )  # fmt: skip
    one.ask(request, token=f"fetch {node_id}")


def leader(**named: Any) -> One:
    """Leads voters 1, 2, 3, and has committed its LeaderChange."""
    one = One(**named)
    one.elect()
    fetch(one, 2)
    assert one.replica.high_watermark == one.log.end_offset
    return one


def ids(one: One) -> list[int]:
    return list(one.replica.voters.voters)


def answers(effects: list[Any], token: object = "token") -> list[Any]:
    return [each.response for each in effects if isinstance(each, Answer) and each.token == token]


# The voters in the log


def test_the_first_leader_of_a_formatted_quorum_puts_the_voters_into_the_log() -> None:
    one = One()
    assert one.history.voters_offset == BOOTSTRAP_OFFSET
    one.start()
    one.elect()
    assert one.history.voters_offset == 2
    record = QuorumHistory()
    record.note(2, one.replica.voters.to_record())
    assert record.voters == one.replica.voters


def test_a_leader_that_has_moved_writes_down_where_it_is() -> None:
    one = One(epochs=[1])
    one.history.note(0, one.replica.voters.to_record())
    endpoints = (VoterEndpoint(LISTENER, "elsewhere", 9094),)
    one.replica._core.identity = replace(one.replica._core.identity, endpoints=endpoints)
    one.elect()
    assert one.replica.voters.voters[1].endpoints == endpoints
    assert one.history.voters_offset == 3  # with its LeaderChange, in one batch
    assert ids(one) == [1, 2, 3]


def test_a_leader_that_does_not_know_its_port_yet_writes_nothing() -> None:
    one = One(epochs=[1])
    one.history.note(0, one.replica.voters.to_record())
    endpoints = (VoterEndpoint(LISTENER, "elsewhere", 0),)
    one.replica._core.identity = replace(one.replica._core.identity, endpoints=endpoints)
    one.elect()
    assert one.history.voters_offset == 0


def test_a_later_leader_does_not_repeat_them() -> None:
    quorum = Quorum()
    quorum.start()
    quorum.pass_ms(5_000)
    first = quorum.leader
    quorum.cut.add(first.key.id)
    quorum.pass_ms(10_000)
    appended = [each for each in quorum.leader.effects if isinstance(each, AppendControl)]
    assert [record.NAME for record in appended[-1].records] == ["LeaderChangeMessage"]
    assert quorum.leader.history.voters_offset == first.history.voters_offset


def test_the_newest_record_counts_until_it_is_cut_off() -> None:
    history = QuorumHistory(VoterSet([voter_of(9)]))
    history.note_voters(5, VoterSet([voter_of(1), voter_of(2)]))
    history.note_kraft_version(5, 1)
    history.note_voters(8, VoterSet([voter_of(1)]))
    assert list(history.voters.voters) == [1]
    assert list(history.voters_at(8).voters) == [1, 2]
    history.truncate(8)
    assert (list(history.voters.voters), history.voters_offset, history.kraft_version) == ([1, 2], 5, 1)
    history.truncate(5)
    assert (list(history.voters.voters), history.voters_offset, history.kraft_version) == ([9], None, 0)


# AddRaftVoter


def test_a_voter_is_added_when_it_is_asked_caught_up_and_committed() -> None:
    one = leader()
    fetch(one, 4)
    assert one.ask(add(4)) is None
    (call,) = one.calls(ApiVersionsRequest)
    assert call.target.node_id == 4
    assert ids(one) == [1, 2, 3]
    effects = one.reply(call, supports())
    assert ids(one) == [1, 2, 3, 4]
    assert answers(effects) == []
    fetch(one, 2)
    assert answers(one.effects) == []  # two of four are too few
    fetch(one, 4)
    assert [each.error_code for each in answers(one.effects)] == [ErrorCode.NONE]


def test_the_first_to_vote_beside_a_sole_voter_is_given_the_time_to_fetch() -> None:
    one = One(1, [1])
    one.elect()
    timeout_ms = RaftConfig().check_quorum_timeout_ms
    one.pass_ms(10 * timeout_ms)  # nobody had to fetch from it so far
    fetch(one, 2)
    assert one.ask(add(2)) is None
    one.reply(one.calls(ApiVersionsRequest)[0], supports())
    one.pass_ms(RaftConfig().request_timeout_ms // 2)
    assert one.replica.is_leader
    fetch(one, 2)
    assert [each.error_code for each in answers(one.effects)] == [ErrorCode.NONE]
    one.pass_ms(2 * timeout_ms)
    assert not one.replica.is_leader, "a voter that fetches no more is missed then"


def test_an_administrator_need_not_wait_for_the_commit() -> None:
    one = leader()
    fetch(one, 4)
    assert one.ask(add(4, ack_when_committed=False)) is None
    effects = one.reply(one.calls(ApiVersionsRequest)[0], supports())
    assert [each.error_code for each in answers(effects)] == [ErrorCode.NONE]
    fetch(one, 2)
    fetch(one, 3)
    assert len(answers(one.effects)) == 1


@pytest.mark.parametrize(
    ("versions", "caught_up", "error", "words"),
    [
        (supports(0, 0), True, ErrorCode.INVALID_REQUEST, "doesn't support the finalized version 1"),
        (ApiVersionsResponse(), True, ErrorCode.INVALID_REQUEST, "doesn't support"),
        (None, True, ErrorCode.REQUEST_TIMED_OUT, "no answer"),
        (ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION), True, ErrorCode.REQUEST_TIMED_OUT, "error 35"),
        (supports(), False, ErrorCode.REQUEST_TIMED_OUT, "lagging behind"),
    ],
)
def test_a_voter_that_would_be_of_no_use_is_not_added(
    versions: ApiVersionsResponse | None, caught_up: bool, error: ErrorCode, words: str
) -> None:
    one = leader()
    if caught_up:
        fetch(one, 4)
    assert one.ask(add(4)) is None
    (refused,) = answers(one.reply(one.calls(ApiVersionsRequest)[0], versions))
    assert refused.error_code == error
    assert words in refused.error_message
    assert ids(one) == [1, 2, 3]


def test_an_answer_of_a_voter_that_was_given_up_says_nothing_of_the_next() -> None:
    one = leader()
    for node_id in (4, 5):
        fetch(one, node_id)
    assert one.ask(add(4), token="first") is None
    (late,) = one.calls(ApiVersionsRequest)
    one.pass_ms(2_000)
    assert [each.error_code for each in answers(one.effects, "first")] == [ErrorCode.REQUEST_TIMED_OUT]
    assert one.ask(add(5)) is None
    one.reply(late, supports())
    assert ids(one) == [1, 2, 3]
    one.reply(one.calls(ApiVersionsRequest)[0], supports())
    assert ids(one) == [1, 2, 3, 5]


def test_what_is_wrong_with_a_request_is_said() -> None:
    one = leader()
    assert one.ask(add(3)).error_code == ErrorCode.DUPLICATE_VOTER
    assert one.ask(add(4, cluster_id="another")).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert one.ask(add(4, voter_directory_id=ZERO_UUID)).error_code == ErrorCode.INVALID_REQUEST
    assert one.ask(add(4, listeners=[])).error_code == ErrorCode.INVALID_REQUEST
    assert one.ask(remove(9)).error_code == ErrorCode.VOTER_NOT_FOUND


def test_with_kraft_version_0_the_voters_stay() -> None:
    one = One(kraft_version=0)
    one.elect()
    fetch(one, 2)
    assert one.ask(add(4)).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert one.ask(remove(3)).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_who_does_not_lead_changes_nothing() -> None:
    one = One()
    one.start()
    assert one.ask(add(4)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert one.ask(remove(2)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_new_leader_commits_in_its_epoch_before_it_changes_the_voters() -> None:
    one = One()
    one.elect()
    refused = one.ask(remove(3))
    assert refused.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert "establish HWM" in refused.error_message


def test_there_is_one_change_at_a_time() -> None:
    one = leader()
    assert one.ask(remove(3), token="first") is None
    refused = one.ask(remove(2))
    assert refused.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert ids(one) == [1, 2]
    one.pass_ms(2_000)  # nobody commits it: the administrator is told, and the record stays
    assert [each.error_code for each in answers(one.effects, "first")] == [ErrorCode.REQUEST_TIMED_OUT]
    assert one.ask(remove(2)).error_code == ErrorCode.REQUEST_TIMED_OUT


def test_a_change_ends_with_the_leadership() -> None:
    one = leader()
    assert one.ask(remove(3)) is None
    (told,) = answers(one.do(one.replica.resign(one.now_ms)))
    assert told.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


# RemoveRaftVoter


def test_a_voter_is_removed() -> None:
    one = leader()
    assert one.ask(remove(3)) is None
    fetch(one, 2)
    assert [each.error_code for each in answers(one.effects)] == [ErrorCode.NONE]
    assert ids(one) == [1, 2]


def test_the_last_voter_stays() -> None:
    one = One(1, [1])
    one.elect()
    assert one.ask(remove(1)).error_code == ErrorCode.VOTER_NOT_FOUND


def test_a_leader_that_removes_itself_does_not_count_itself_and_resigns_at_the_end() -> None:
    one = leader()
    assert one.ask(remove(1)) is None
    assert one.replica.is_leader
    fetch(one, 2)
    assert answers(one.effects) == []  # of 2 and 3, both are needed
    fetch(one, 3)
    assert [each.error_code for each in answers(one.effects)] == [ErrorCode.NONE]
    assert isinstance(one.replica.role, Resigned)


def test_a_removed_leader_stands_again_until_its_removal_is_committed() -> None:
    one = leader()
    one.ask(remove(1))
    one.do(one.replica.resign(one.now_ms))
    assert not one.replica.is_voter
    effects = one.pass_ms(6_000)
    assert [each for each in effects if isinstance(each, Call) and isinstance(each.request, VoteRequest)]


def test_a_removed_voter_hears_of_it_and_stands_no_more() -> None:
    quorum = Quorum()
    quorum.start()
    quorum.pass_ms(5_000)
    first = quorum.leader
    gone = next(one for one in quorum.ones.values() if one is not first)
    assert first.ask(remove(gone.key.id)) is None
    quorum.append()
    quorum.pass_ms(3_000)
    assert not gone.replica.is_voter
    quorum.cut.add(first.key.id)
    quorum.pass_ms(20_000)
    assert not isinstance(gone.replica.role, Prospective | Candidate)


# UpdateRaftVoter


def update(one: One, voter: Voter, epoch: int | None = None) -> Any:
    request = messages.update_voter(CLUSTER, one.replica.epoch if epoch is None else epoch, voter)
    return one.ask(request)


def test_a_voter_that_moved_is_written_down_where_it_is() -> None:
    one = leader()
    moved = Voter(key_of(2), (VoterEndpoint(LISTENER, "elsewhere", 9094),))
    response = update(one, moved)
    assert response.error_code == ErrorCode.NONE
    assert (response.current_leader.leader_id, response.current_leader.host) == (1, "host-1")
    assert one.replica.voters.voters[2] == moved


def test_an_update_that_changes_nothing_writes_nothing() -> None:
    one = leader()
    end_offset = one.log.end_offset
    assert update(one, voter_of(2)).error_code == ErrorCode.NONE
    assert one.log.end_offset == end_offset


def test_an_update_that_makes_no_sense_is_refused() -> None:
    one = leader()
    assert update(one, voter_of(9)).error_code == ErrorCode.VOTER_NOT_FOUND
    assert update(one, Voter(key_of(2))).error_code == ErrorCode.INVALID_REQUEST
    assert update(one, Voter(key_of(2), voter_of(2).endpoints, (0, 0))).error_code == ErrorCode.INVALID_REQUEST
    assert update(one, voter_of(2), epoch=0).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert update(one, Voter(ReplicaKey(2, key_of(9).directory_id), voter_of(2).endpoints)).error_code == (
        ErrorCode.VOTER_NOT_FOUND
    )


def test_a_voter_that_moved_says_so_by_itself() -> None:
    quorum = Quorum()
    moved = quorum.ones[3]
    endpoints = (VoterEndpoint(LISTENER, "elsewhere", 9094),)
    moved.replica._core.identity = replace(moved.replica._core.identity, endpoints=endpoints)
    quorum.start()
    quorum.pass_ms(10_000)
    assert quorum.leader is not moved
    for one in quorum.ones.values():
        assert one.replica.voters.voters[3].endpoints == endpoints


# kraft.version 0 to 1


CONFIG = RaftConfig()


def following(**named: Any) -> One:
    """Follows node 2."""
    one = One(**named)
    one.start()
    one.ask(messages.begin_quorum_epoch(CLUSTER, 2, 5, key_of(1), ()))
    return one


def answered_fetches(one: One, milliseconds: int) -> None:
    """Time goes by; the leader answers fetches."""
    for _ in range(milliseconds // 100):
        one.pass_ms(100)
        for call in one.calls(FetchRequest):
            view = LeaderView(2, one.replica.epoch, target_of(2))
            one.reply(call, messages.fetch_answer(view, PartitionData(high_watermark=0)))


def test_an_update_waits_for_no_moment_at_which_nothing_is_fetched() -> None:
    one = following(kraft_version=0)
    answered_fetches(one, CONFIG.fetch_timeout_ms - 100)
    (fetching,) = one.calls(FetchRequest)
    one.pass_ms(200)  # it is due, and a fetch is under way
    assert one.calls(UpdateRaftVoterRequest) == []
    view = LeaderView(2, one.replica.epoch, target_of(2))
    one.reply(fetching, messages.fetch_answer(view, PartitionData(high_watermark=0)))
    assert len(one.calls(UpdateRaftVoterRequest)) == 1


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.UNSUPPORTED_VERSION])
def test_with_kraft_version_0_a_voter_tells_each_leader_once_of_itself(error: ErrorCode) -> None:
    one = following(kraft_version=0)
    answered_fetches(one, 2_500)
    (call,) = one.calls(UpdateRaftVoterRequest)
    told: Any = call.request
    assert (told.voter_id, told.voter_directory_id, told.listeners[0].host) == (1, key_of(1).directory_id, "host-1")
    assert told.kraft_version_feature.max_supported_version == 1
    leader = CurrentLeader(leader_id=2, leader_epoch=5, host="host-2", port=9093)
    one.reply(call, UpdateRaftVoterResponse(error_code=error, current_leader=leader))
    answered_fetches(one, 5_000)
    assert one.calls(UpdateRaftVoterRequest) == []
    one.ask(messages.begin_quorum_epoch(CLUSTER, 2, 6, key_of(1), ()))
    answered_fetches(one, 2_500)
    assert len(one.calls(UpdateRaftVoterRequest)) == 1


def test_an_update_that_was_refused_is_sent_again() -> None:
    one = following(kraft_version=0)
    answered_fetches(one, 2_500)
    (call,) = one.calls(UpdateRaftVoterRequest)
    leader = CurrentLeader(leader_id=2, leader_epoch=5, host="host-2", port=9093)
    one.reply(call, UpdateRaftVoterResponse(error_code=ErrorCode.REQUEST_TIMED_OUT, current_leader=leader))
    answered_fetches(one, 2_500)
    assert len(one.calls(UpdateRaftVoterRequest)) == 1


def test_the_answer_to_an_update_brings_news_of_the_next_leader() -> None:
    one = following(kraft_version=0)
    answered_fetches(one, 2_500)
    (call,) = one.calls(UpdateRaftVoterRequest)
    leader = CurrentLeader(leader_id=3, leader_epoch=7, host="host-3", port=9093)
    one.reply(call, UpdateRaftVoterResponse(error_code=ErrorCode.FENCED_LEADER_EPOCH, current_leader=leader))
    assert (one.replica.leader_id, one.replica.epoch) == (3, 7)


def static_leader(*updated: int, **named: Any) -> One:
    """Leads voters 1, 2, 3 with kraft.version 0, has committed, and has heard of some."""
    one = One(kraft_version=0, **named)
    one.elect()
    fetch(one, 2)
    for node_id in updated:
        assert update(one, voter_of(node_id)).error_code == ErrorCode.NONE
    return one


def test_with_kraft_version_0_an_update_is_kept_by_the_leader_alone() -> None:
    one = static_leader()
    end_offset = one.log.end_offset
    assert update(one, voter_of(2)).error_code == ErrorCode.NONE
    assert one.log.end_offset == end_offset
    assert one.replica.voters.voters[2].key == ReplicaKey(2)
    assert update(one, voter_of(9)).error_code == ErrorCode.VOTER_NOT_FOUND
    assert update(one, Voter(key_of(2), voter_of(2).endpoints, (1, 1))).error_code == ErrorCode.INVALID_REQUEST


def test_the_upgrade_puts_version_and_voters_into_the_log() -> None:
    one = static_leader(2, 3)
    offset = one.log.end_offset
    effects = one.do(one.replica.upgrade_kraft_version(1, one.now_ms))
    (appended,) = [each for each in effects if isinstance(each, AppendControl)]
    assert [type(record) for record in appended.records] == [KRaftVersionRecord, VotersRecord]
    assert (one.replica.kraft_version, one.log.end_offset) == (1, offset + 2)
    assert [voter.key for voter in one.replica.voters.voters.values()] == [key_of(1), key_of(2), key_of(3)]
    fetch(one, 2)
    assert one.replica.high_watermark == offset + 2
    assert one.ask(add(4, listeners=[])).error_code == ErrorCode.INVALID_REQUEST  # and no more UNSUPPORTED_VERSION


def test_the_upgrade_that_is_only_to_be_checked_writes_nothing() -> None:
    one = static_leader(2, 3)
    assert one.do(one.replica.upgrade_kraft_version(1, one.now_ms, validate_only=True)) == []
    assert one.replica.kraft_version == 0
    one.do(one.replica.upgrade_kraft_version(1, one.now_ms))
    assert one.replica.kraft_version == 1


def test_a_version_that_is_finalized_already_is_left_as_it_is() -> None:
    assert leader().replica.upgrade_kraft_version(1, 20_000) == []
    assert static_leader().replica.upgrade_kraft_version(0, 20_000) == []


@pytest.mark.parametrize(
    ("one", "version", "words"),
    [
        (lambda: static_leader(2), 1, r"voters \[3\] have not yet told the leader"),
        (lambda: static_leader(2, 3), 2, "from version 0 to 2"),
        (leader, 0, "the new version is a downgrade"),
    ],
)
def test_an_upgrade_that_cannot_be_says_why(one: Any, version: int, words: str) -> None:
    refusing = one()
    with pytest.raises(RequestError, match=words) as raised:
        refusing.replica.upgrade_kraft_version(version, refusing.now_ms)
    assert raised.value.code == ErrorCode.INVALID_UPDATE_VERSION


def test_a_voter_that_supports_no_other_version_keeps_the_old_one() -> None:
    one = static_leader(2)
    assert update(one, Voter(key_of(3), voter_of(3).endpoints, (0, 0))).error_code == ErrorCode.NONE
    with pytest.raises(RequestError, match=r"voters \[3\] do not"):
        one.replica.upgrade_kraft_version(1, one.now_ms)


def test_a_quorum_is_upgraded_when_it_has_been_up_for_a_while() -> None:
    quorum = Quorum(kraft_version=0)
    quorum.start()
    quorum.pass_ms(6_000)
    one = quorum.leader
    quorum.act(one.key.id, one.do(one.replica.upgrade_kraft_version(1, one.now_ms)))
    quorum.pass_ms(1_000)
    for other in quorum.ones.values():
        assert other.replica.kraft_version == 1
        assert [voter.key for voter in other.replica.voters.voters.values()] == [key_of(each) for each in (1, 2, 3)]


# controller.quorum.auto.join.enable


def joined(quorum: Quorum) -> list[ReplicaKey]:
    return [voter.key for voter in quorum.leader.replica.voters.voters.values()]


def with_newcomer(node_id: int, *, auto_join: bool = True, directory: int | None = None) -> Quorum:
    """Voters 1, 2, 3, and a controller that is not among them by its directory."""
    quorum = Quorum([1, 2, 3])
    one = One(node_id, [1, 2, 3], config=RaftConfig(auto_join=auto_join))
    if directory is not None:
        one.key = ReplicaKey(node_id, UUID(int=directory))
        core = one.replica._core
        core.local = one.key
        core.identity = replace(core.identity, key=one.key)
    quorum.ones[node_id] = one
    quorum.start()
    quorum.pass_ms(15_000)
    return quorum


def test_a_controller_joins_by_itself() -> None:
    assert joined(with_newcomer(4)) == [key_of(1), key_of(2), key_of(3), key_of(4)]


def test_without_the_setting_it_only_observes() -> None:
    assert joined(with_newcomer(4, auto_join=False)) == [key_of(1), key_of(2), key_of(3)]


def test_a_voter_with_a_new_disk_takes_the_place_of_the_one_with_the_old() -> None:
    quorum = with_newcomer(3, directory=0xABC)
    assert joined(quorum) == [key_of(1), key_of(2), ReplicaKey(3, UUID(int=0xABC))]
    assert quorum.ones[3].replica.is_voter


def test_a_broker_never_joins() -> None:
    quorum = Quorum([1, 2, 3], observers=[7], config=RaftConfig(auto_join=True))
    quorum.start()
    quorum.pass_ms(10_000)
    assert joined(quorum) == [key_of(1), key_of(2), key_of(3)]
