"""What a member of a classic group says, what it takes from the answers, and how its leader shares the partitions."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import pytest

from penstock.client.assignors import ASSIGNORS, COOPERATIVE, RANGE, ROUND_ROBIN, Wish, cooperatively
from penstock.client.classic_membership import NO_GENERATION, Answer, ClassicMembership, encode_share
from penstock.client.client import Partition
from penstock.client.membership import Heard
from penstock.errors import ErrorCode, ProtocolError
from penstock.protocol.consumer_protocol import decode_assignment, decode_subscription
from penstock.protocol.messages.heartbeat_request import HeartbeatRequest
from penstock.protocol.messages.heartbeat_response import HeartbeatResponse
from penstock.protocol.messages.join_group_request import JoinGroupRequest
from penstock.protocol.messages.join_group_response import JoinGroupResponse, JoinGroupResponseMember
from penstock.protocol.messages.sync_group_request import SyncGroupRequest
from penstock.protocol.messages.sync_group_response import SyncGroupResponse

MINE: list[Partition] = [("t", 0), ("t", 1)]


def member(instance_id: str | None = None) -> ClassicMembership:
    return ClassicMembership(
        "g",
        ["t"],
        ASSIGNORS,
        session_timeout_ms=9_000,
        rebalance_timeout_ms=8_000,
        interval_ms=500,
        instance_id=instance_id,
    )


def joined(one: ClassicMembership, *, leader: str = "m", protocol: str = RANGE, generation: int = 1) -> Heard:
    """It joins, as member `m`; if it leads, `other` is in the group too and wants the same."""
    request = one.request([])
    assert isinstance(request, JoinGroupRequest)
    metadata = request.protocols[0].metadata
    members = [JoinGroupResponseMember(member_id=each, metadata=metadata) for each in ("m", "other")]
    answer = JoinGroupResponse(
        generation_id=generation,
        protocol_name=protocol,
        leader=leader,
        member_id="m",
        members=members if leader == "m" else [],
    )
    return one.heard(answer)


def synced(one: ClassicMembership, places: Sequence[Partition]) -> Heard:
    assert isinstance(one.request([]), SyncGroupRequest)
    return one.heard(SyncGroupResponse(assignment=encode_share(places)))


def stable(instance_id: str | None = None) -> ClassicMembership:
    """A member that has `MINE`; another leads."""
    one = member(instance_id)
    assert joined(one, leader="other") is Heard.JOINED
    assert synced(one, MINE) is Heard.GIVEN
    assert one.heard(HeartbeatResponse()) is Heard.STAYS
    return one


def failed(code: ErrorCode) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=code)


def test_who_joins_offers_what_it_can_share_by_and_is_given_an_id() -> None:
    one = member()
    request = one.request([])
    assert isinstance(request, JoinGroupRequest)
    assert (request.group_id, request.member_id, request.protocol_type) == ("g", "", "consumer")
    assert (request.session_timeout_ms, request.rebalance_timeout_ms) == (9_000, 8_000)
    assert [each.name for each in request.protocols] == [RANGE, ROUND_ROBIN, COOPERATIVE]
    assert decode_subscription(request.protocols[0].metadata).topics == ["t"]
    refused = JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="m")
    assert one.heard(refused) is Heard.REJOINS
    again = one.request([])
    assert isinstance(again, JoinGroupRequest)
    assert again.member_id == "m"


def test_a_member_is_given_its_share_and_then_heartbeats() -> None:
    one = stable()
    assert (one.member_id, one.epoch, one.synced, one.target) == ("m", 1, 1, MINE)
    assert one.assigned({"t": UUID(int=7)}) == dict.fromkeys(MINE, UUID(int=7))
    assert one.assigned({}) == {}
    request = one.request(MINE)
    assert isinstance(request, HeartbeatRequest)
    assert (request.member_id, request.generation_id) == ("m", 1)
    assert not one.wanted, "another leads"


@pytest.mark.parametrize("protocol", ASSIGNORS)
def test_the_leader_shares_all_that_there_is(protocol: str) -> None:
    one = member()
    assert joined(one, protocol=protocol) is Heard.JOINED
    assert one.is_to_share
    assert one.wanted == ["t"]
    one.share({"t": 4})
    assert not one.is_to_share
    request = one.request([])
    assert isinstance(request, SyncGroupRequest)
    shares = {
        each.member_id: [
            (topic.topic, topic.partitions) for topic in decode_assignment(each.assignment).assigned_partitions
        ]
        for each in request.assignments
    }
    halves = {RANGE: ([0, 1], [2, 3])}.get(protocol, ([0, 2], [1, 3]))
    assert shares == {"m": [("t", halves[0])], "other": [("t", halves[1])]}


def test_an_assignor_that_was_not_offered_is_an_error_of_the_broker() -> None:
    with pytest.raises(ProtocolError, match="by sticky, which was not offered"):
        joined(member(), protocol="sticky")


def test_new_partitions_call_for_a_new_generation() -> None:
    one = member()
    joined(one)
    one.share({"t": 2})
    assert synced(one, MINE) is Heard.GIVEN
    one.share({"t": 2})
    assert not one.must_join
    one.share({"t": 3})
    assert isinstance(one.request(MINE), HeartbeatRequest), "it has to give up what it has before it joins"
    assert one.heard(HeartbeatResponse()) is Heard.REJOINS
    assert isinstance(one.request([]), JoinGroupRequest)


def test_told_to_rebalance_it_lives_on_until_it_has_given_up_everything() -> None:
    one = stable()
    assert one.heard(failed(ErrorCode.REBALANCE_IN_PROGRESS)) is Heard.REJOINS
    assert isinstance(one.request(MINE), HeartbeatRequest)
    assert one.heard(failed(ErrorCode.REBALANCE_IN_PROGRESS)) is Heard.REJOINS
    request = one.request([])
    assert isinstance(request, JoinGroupRequest)
    assert request.member_id == "m"
    assert decode_subscription(request.protocols[0].metadata).generation_id == 1


def test_a_cooperative_member_joins_once_more_when_it_has_lost_something() -> None:
    one = stable()
    one.join(MINE)
    one.heard(JoinGroupResponse(generation_id=2, protocol_name=COOPERATIVE, leader="other", member_id="m"))
    assert one.heard(SyncGroupResponse(assignment=encode_share(MINE[:1]))) is Heard.GIVEN
    assert one.must_join
    one.join(MINE[:1])
    one.heard(JoinGroupResponse(generation_id=3, protocol_name=COOPERATIVE, leader="other", member_id="m"))
    assert one.heard(SyncGroupResponse(assignment=encode_share(MINE[:1]))) is Heard.GIVEN
    assert not one.must_join


@pytest.mark.parametrize("answer", [None, SyncGroupResponse(error_code=ErrorCode.NOT_COORDINATOR)])
def test_who_does_not_hear_of_its_share_joins_again_as_the_same_member(answer: Answer | None) -> None:
    one = member()
    joined(one, leader="other")
    assert one.heard(answer) is Heard.UNSERVED
    request = one.request([])
    assert isinstance(request, JoinGroupRequest)
    assert request.member_id == "m"


@pytest.mark.parametrize(
    ("code", "member_id"),
    [(ErrorCode.UNKNOWN_MEMBER_ID, ""), (ErrorCode.ILLEGAL_GENERATION, "m"), (ErrorCode.GROUP_ID_NOT_FOUND, "")],
)
def test_who_has_lost_its_place_has_nothing_and_joins_again(code: ErrorCode, member_id: str) -> None:
    one = stable()
    assert one.heard(failed(code)) is Heard.LOST
    assert (one.epoch, one.target, one.must_join) == (NO_GENERATION, [], True)
    request = one.request([])
    assert isinstance(request, JoinGroupRequest)
    assert request.member_id == member_id


@pytest.mark.parametrize(
    "code", [ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.FENCED_INSTANCE_ID]
)
def test_a_join_that_is_refused_for_good_is_for_the_owner_to_judge(code: ErrorCode) -> None:
    assert member().heard(JoinGroupResponse(error_code=code)) is Heard.REFUSED


def test_who_is_known_leaves_and_a_static_member_goes_without_a_word() -> None:
    assert member().leave_request() is None
    request = stable().leave_request()
    assert request is not None
    assert [each.member_id for each in request.members] == ["m"]
    assert stable("i").leave_request() is None


def shared_by(owned: dict[str, list[Partition]], count: int) -> dict[str, list[Partition]]:
    return cooperatively({name: Wish(["t"], some, 1) for name, some in owned.items()}, {"t": count})


def test_a_newcomer_has_a_share_of_what_others_have_and_gets_it_once_they_gave_it_up() -> None:
    two = {"a": [("t", 0), ("t", 1)], "b": [("t", 2), ("t", 3)]}
    first = shared_by({**two, "c": []}, 4)
    assert first["c"] == [], "what its owner has not given up is given to nobody"
    assert sorted(map(len, first.values())) == [0, 1, 2]
    second = shared_by(first, 4)
    assert sorted(map(len, second.values())) == [1, 1, 2]
    assert shared_by(second, 4) == second


def test_of_two_that_claim_a_partition_the_later_generation_has_it() -> None:
    place = ("t", 0)
    wishes = {"a": Wish(["t"], [place], 2), "b": Wish(["t"], [place], 1)}
    assert cooperatively(wishes, {"t": 1}) == {"a": [place], "b": []}


def leads_with(owned_by_other: Sequence[Partition], protocol: str = COOPERATIVE) -> ClassicMembership:
    """A member that leads a generation of two, in which the other one claims these partitions of four."""
    one = member()
    other = member()
    other.epoch = 1
    claims = other.join(owned_by_other).protocols[0].metadata
    answer = JoinGroupResponse(
        generation_id=2,
        protocol_name=protocol,
        leader="m",
        member_id="m",
        members=[
            JoinGroupResponseMember(member_id="m", metadata=one.join([]).protocols[0].metadata),
            JoinGroupResponseMember(member_id="other", metadata=claims),
        ],
    )
    assert one.heard(answer) is Heard.JOINED
    one.share({"t": 4})
    one.sync()
    one.heard(SyncGroupResponse(assignment=encode_share([])))
    return one


def test_a_leader_that_withholds_partitions_joins_again_if_their_owner_does_not() -> None:
    one = leads_with([("t", index) for index in range(4)])
    for _ in range(16):  # 8 s, as a rebalance may take
        assert one.heard(HeartbeatResponse()) is Heard.STAYS
    assert one.heard(HeartbeatResponse()) is Heard.REJOINS
    assert one.must_join


@pytest.mark.parametrize("owned", [[], [("t", 0), ("t", 1)]])
def test_a_leader_that_withholds_nothing_stays(owned: list[Partition]) -> None:
    one = leads_with(owned)
    assert all(one.heard(HeartbeatResponse()) is Heard.STAYS for _ in range(99))


def test_a_leader_waits_anew_in_each_generation() -> None:
    one = leads_with([("t", index) for index in range(4)])
    for _ in range(16):
        one.heard(HeartbeatResponse())
    assert one.heard(failed(ErrorCode.REBALANCE_IN_PROGRESS)) is Heard.REJOINS
    assert joined(one, leader="other", protocol=COOPERATIVE, generation=3) is Heard.JOINED
    assert synced(one, MINE) is Heard.GIVEN
    assert all(one.heard(HeartbeatResponse()) is Heard.STAYS for _ in range(99))
