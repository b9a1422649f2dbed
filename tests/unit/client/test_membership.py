"""What a member says to its coordinator, and what it takes from the answers: requests and responses alone."""

from __future__ import annotations

from uuid import UUID

import pytest

from penstock.client.membership import JOIN, LEAVE, LEAVE_FOR_A_WHILE, Heard, Membership
from penstock.errors import ErrorCode
from penstock.protocol.messages.consumer_group_heartbeat_request import TopicPartitions as Owned
from penstock.protocol.messages.consumer_group_heartbeat_response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

TOPIC = UUID(int=7)


def member(instance_id: str | None = None) -> Membership:
    return Membership("g", "m", ["t"], rebalance_timeout_ms=9_000, instance_id=instance_id)


def told(epoch: int, *partitions: int) -> ConsumerGroupHeartbeatResponse:
    assignment = Assignment(topic_partitions=[TopicPartitions(topic_id=TOPIC, partitions=list(partitions))])
    return ConsumerGroupHeartbeatResponse(member_epoch=epoch, heartbeat_interval_ms=500, assignment=assignment)


def stays(epoch: int) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(member_epoch=epoch, heartbeat_interval_ms=500)


def having(*partitions: int) -> dict[tuple[str, int], UUID]:
    """What a member says that it has."""
    return {("t", index): TOPIC for index in partitions}


def failed(code: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=code)


def joined(*partitions: int) -> Membership:
    """A member with these partitions, which the coordinator knows of."""
    one = member()
    one.request({})
    assert one.heard(told(1, *partitions)) is Heard.GIVEN
    one.request(having(*partitions))
    assert one.heard(stays(1)) is Heard.STAYS
    return one


def test_who_joins_says_everything() -> None:
    request = member().request({})
    assert (request.group_id, request.member_id, request.member_epoch) == ("g", "m", JOIN)
    assert (request.subscribed_topic_names, request.rebalance_timeout_ms) == (["t"], 9_000)
    assert request.topic_partitions == []


def test_who_is_told_less_of_what_it_never_took_says_what_it_has() -> None:
    """The coordinator waits to hear that it has no more: nobody else gets the rest before."""
    one = joined(0, 1)
    assert one.heard(told(2, 0, 1, 2)) is Heard.GIVEN
    assert one.request(having(0, 1)).topic_partitions == [Owned(topic_id=TOPIC, partitions=[0, 1])]
    assert one.heard(told(3, 0, 1)) is Heard.GIVEN
    assert one.request(having(0, 1)).topic_partitions == [Owned(topic_id=TOPIC, partitions=[0, 1])]
    assert one.heard(stays(3)) is Heard.STAYS
    assert one.request(having(0, 1)).topic_partitions is None


def test_a_group_of_another_kind_is_for_the_owner_to_judge() -> None:
    """It is unknown to who joins: another join would be answered so again, for ever."""
    one = member()
    one.request({})
    assert one.heard(failed(ErrorCode.GROUP_ID_NOT_FOUND)) is Heard.REFUSED
    assert one.epoch == JOIN


def test_what_it_has_is_said_when_it_has_changed() -> None:
    one = joined(0, 1)
    assert one.target == [(TOPIC, 0), (TOPIC, 1)]
    again = one.request(having(0, 1))
    assert (again.member_epoch, again.topic_partitions, again.subscribed_topic_names) == (1, None, None)
    assert one.request(having(0)).topic_partitions == [Owned(topic_id=TOPIC, partitions=[0])]
    assert one.sign_of_life().topic_partitions is None


@pytest.mark.parametrize(
    ("answer", "heard"),
    [
        (None, Heard.UNSERVED),
        (failed(ErrorCode.NOT_COORDINATOR), Heard.UNSERVED),
        (failed(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), Heard.UNSERVED),
        (failed(ErrorCode.UNRELEASED_INSTANCE_ID), Heard.REFUSED),
    ],
)
def test_after_an_error_it_says_everything_and_is_the_member_that_it_was(
    answer: ConsumerGroupHeartbeatResponse | None, heard: Heard
) -> None:
    one = joined(0)
    one.request(having(0))
    assert one.heard(answer) is heard
    request = one.request(having(0))
    assert (request.member_epoch, request.subscribed_topic_names) == (1, ["t"])
    assert request.topic_partitions == [Owned(topic_id=TOPIC, partitions=[0])]


@pytest.mark.parametrize(
    "code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND]
)
def test_who_has_lost_its_place_has_nothing_and_joins_again(code: ErrorCode) -> None:
    one = joined(0)
    assert one.heard(failed(code)) is Heard.LOST
    assert (one.epoch, one.target) == (JOIN, [])
    request = one.request({})
    assert (request.member_epoch, request.subscribed_topic_names, request.topic_partitions) == (JOIN, ["t"], [])


def test_a_static_member_is_to_come_back() -> None:
    request = joined(0).leave_request()
    assert request is not None
    assert request.member_epoch == LEAVE
    static = member("i")
    assert static.leave_request() is None, "who is no member does not leave"
    static.heard(told(1, 0))
    request = static.leave_request()
    assert request is not None
    assert (request.member_epoch, request.instance_id) == (LEAVE_FOR_A_WHILE, "i")
