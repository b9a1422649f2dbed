"""What members of consumer groups are refused, with Kafka's codes and words, and that it changes nothing."""

from __future__ import annotations

from typing import Any

import pytest
from unit.coordinator.consumers import Consumer, ConsumerWorld, topic_id

from penstock.errors import ErrorCode
from penstock.protocol.messages.consumer_group_heartbeat_request import TopicPartitions

REBALANCE = {"rebalance_timeout_ms": 1_000}
JOIN: dict[str, Any] = {
    "member_id": "m",
    "member_epoch": 0,
    "subscribed_topic_names": ["t"],
    "topic_partitions": [],
    **REBALANCE,
}

INVALID: list[tuple[dict[str, Any], str]] = [
    ({"member_id": ""}, "MemberId can't be empty."),
    ({"group": " "}, "GroupId can't be empty."),
    ({"instance_id": ""}, "InstanceId can't be empty."),
    ({"rack_id": ""}, "RackId can't be empty."),
    ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
    ({"topic_partitions": None}, "TopicPartitions must be empty when (re-)joining."),
    (
        {"topic_partitions": [TopicPartitions(topic_id=topic_id("t"), partitions=[0])]},
        "TopicPartitions must be empty when (re-)joining.",
    ),
    (
        {"subscribed_topic_names": None},
        "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
    ),
    ({"member_epoch": -2}, "InstanceId can't be null."),
    ({"member_epoch": -3}, "MemberEpoch is invalid."),
]


@pytest.mark.parametrize(("fields", "message"), INVALID)
def test_an_invalid_request_is_refused(fields: dict[str, Any], message: str) -> None:
    world = ConsumerWorld()
    answer = world.beat(**{**JOIN, **fields})
    assert (answer.code, answer.message) == (ErrorCode.INVALID_REQUEST, message)
    assert not len(world.state.groups)


def test_an_unknown_assignor_is_refused() -> None:
    world = ConsumerWorld()
    answer = world.beat(**JOIN, server_assignor="sticky")
    assert answer.code is ErrorCode.UNSUPPORTED_ASSIGNOR
    assert answer.message == "ServerAssignor sticky is not supported. Supported assignors: uniform, range."


def test_only_a_joining_member_makes_a_group() -> None:
    world = ConsumerWorld()
    for epoch, message in ((1, "Consumer group nowhere not found."), (-1, "Group nowhere not found.")):
        answer = world.beat("nowhere", member_id="m", member_epoch=epoch)
        assert (answer.code, answer.message) == (ErrorCode.GROUP_ID_NOT_FOUND, message)


def test_an_unknown_member_is_told_so() -> None:
    world = ConsumerWorld()
    world.consumers(1)
    for epoch in (2, -1):
        answer = world.beat(member_id="who", member_epoch=epoch)
        assert answer.code is ErrorCode.UNKNOWN_MEMBER_ID
        assert answer.message == "Member who is not a member of group g."


def test_a_member_ahead_of_the_coordinator_is_fenced() -> None:
    world = ConsumerWorld()
    (member,) = world.consumers(1)
    answer = member.send(member_epoch=member.epoch + 1)
    assert answer.code is ErrorCode.FENCED_MEMBER_EPOCH
    assert answer.message == (
        "The consumer group member has a greater member epoch (3) than the one known by the group coordinator (2). "
        "The member must abandon all its partitions and rejoin."
    )


def test_a_zombie_of_an_old_epoch_is_fenced() -> None:
    world = ConsumerWorld()
    (member,) = world.consumers(1)
    other = Consumer(world, "n")
    other.join()
    world.reconcile(member, other)
    other.leave()
    world.reconcile(member)
    answer = member.send(member_epoch=2)
    assert answer.code is ErrorCode.FENCED_MEMBER_EPOCH
    assert "has a smaller member epoch (2) than the one known by the group coordinator (4)" in answer.message


def test_a_member_that_missed_one_answer_comes_again_with_its_last_epoch() -> None:
    world = ConsumerWorld()
    (member,) = world.consumers(1)
    Consumer(world, "n").join()
    member.beat()
    member.beat()
    assert member.epoch == 3
    kept = [TopicPartitions(topic_id=topic_id("t"), partitions=[0, 1, 2])]
    assert member.send(member_epoch=2, topic_partitions=kept).value.member_epoch == 3
    more = [TopicPartitions(topic_id=topic_id("t"), partitions=[0, 1, 2, 3])]
    assert member.send(member_epoch=2, topic_partitions=more).code is ErrorCode.FENCED_MEMBER_EPOCH
    assert member.send(member_epoch=2).code is ErrorCode.FENCED_MEMBER_EPOCH, "it does not say what it has"


@pytest.mark.parametrize("joins", [1_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_joins_with_random_ids_hold_no_memory_for_longer_than_a_session(joins: int) -> None:
    world = ConsumerWorld(group_consumer_assignment_interval_ms=15_000, group_consumer_max_size=500)
    honest = Consumer(world, "honest", "honest")
    honest.join()
    for index in range(joins):
        crowded = world.beat("crowd", **{**JOIN, "member_id": f"random {index}"})
        assert crowded.code is (ErrorCode.NONE if index < 500 else ErrorCode.GROUP_MAX_SIZE_REACHED)
        group = f"group {index % 100}"
        joined = world.beat(group, **{**JOIN, "member_id": f"random {index}"})
        assert joined.code is (ErrorCode.NONE if index < 500 * 100 else ErrorCode.GROUP_MAX_SIZE_REACHED)
        unheard_of = world.beat(group, member_id=f"unheard of {index}", member_epoch=1)
        assert unheard_of.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_MAX_SIZE_REACHED)
        world.advance(index % 100 == 0)
    for _ in range(10):
        world.advance(world.settings.group_consumer_session_timeout_ms // 10)
        assert not honest.beat().code
    assert not len(world.group("crowd").members)
    assert len(world.runtime.timers) < 10, "those of the honest one, and the look for what has expired"
    world.advance(world.settings.offsets_retention_check_interval_ms)
    assert world.list_groups() == []


def test_a_full_group_takes_nobody_more_but_keeps_who_is_in() -> None:
    world = ConsumerWorld(group_consumer_max_size=2)
    first, second = world.consumers(2)
    third = Consumer(world, "third")
    answer = third.join()
    assert answer.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert answer.message == "The consumer group has reached its maximum capacity of 2 members."
    assert len(world.group().members) == 2
    assert not first.beat().code
    assert not second.join().code, "a member may join again"


def test_joining_again_with_the_same_id_is_the_same_member() -> None:
    world = ConsumerWorld()
    (member,) = world.consumers(1)
    member.join()
    assert member.epoch == 2
    assert member.partitions() == list(range(6)), "it is told all that it has"
    assert len(world.group().members) == 1


def test_a_full_heartbeat_is_told_everything() -> None:
    world = ConsumerWorld()
    (member,) = world.consumers(1)
    assert member.beat().value.assignment is None
    assert member.beat(**member.everything()).value.assignment is not None


# Static members


def test_a_static_member_comes_back_to_what_it_had() -> None:
    world = ConsumerWorld()
    members = [Consumer(world, f"m{index}", instance_id=f"i{index}") for index in range(2)]
    for member in members:
        member.join()
    world.reconcile(*members)
    first, second = members
    had, epoch = first.partitions(), world.group().epoch()
    assert first.leave(-2).value.member_epoch == -2
    back = Consumer(world, "again", instance_id="i0")
    back.join()
    assert (back.partitions(), back.epoch) == (had, epoch.group)
    assert world.group().epoch() == epoch, "nobody rebalances"
    assert list(world.group().members) == ["m1", "again"]
    assert second.beat().value.assignment is None


def test_a_static_member_that_stays_away_is_dropped() -> None:
    world = ConsumerWorld()
    member = Consumer(world, "m", instance_id="i")
    member.join()
    member.leave(-2)
    assert len(world.group().members) == 1
    world.advance(45_000)
    assert world.group().is_empty
    assert not len(world.group().static_members)


def test_an_instance_id_that_is_in_use_is_not_released() -> None:
    world = ConsumerWorld()
    Consumer(world, "m", instance_id="i").join()
    answer = Consumer(world, "n", instance_id="i").join()
    assert answer.code is ErrorCode.UNRELEASED_INSTANCE_ID
    assert answer.message == (
        "Static member n with instance id i cannot join the group because the instance id is owned by m member."
    )


def test_an_instance_id_that_its_member_has_given_up_is_free() -> None:
    world = ConsumerWorld()
    member = Consumer(world, "m", instance_id="i")
    member.join()
    member.instance_id = "j"
    assert member.join().code is ErrorCode.NONE
    assert dict(world.group().static_members.items()) == {"j": "m"}
    member.leave()
    assert Consumer(world, "n", instance_id="i").join().code is ErrorCode.NONE


def test_a_static_member_whose_place_is_taken_is_fenced() -> None:
    world = ConsumerWorld()
    old = Consumer(world, "old", instance_id="i")
    old.join()
    old.leave(-2)
    Consumer(world, "new", instance_id="i").join()
    for epoch in (old.epoch, -1, -2):
        answer = old.send(member_epoch=epoch, instance_id="i")
        assert answer.code is ErrorCode.FENCED_INSTANCE_ID
        assert answer.message == "Static member old with instance id i was fenced by member new."


def test_an_unknown_instance_is_told_so() -> None:
    world = ConsumerWorld()
    world.consumers(1)
    for epoch in (2, -1, -2):
        answer = world.beat(member_id="m0", member_epoch=epoch, instance_id="i")
        assert (answer.code, answer.message) == (ErrorCode.UNKNOWN_MEMBER_ID, "Instance id i is unknown.")


def test_a_static_member_that_leaves_for_good_makes_room() -> None:
    world = ConsumerWorld()
    first, second = (Consumer(world, f"m{index}", instance_id=f"i{index}") for index in range(2))
    first.join()
    second.join()
    world.reconcile(first, second)
    second.leave()
    world.reconcile(first)
    assert first.partitions() == list(range(6))


# Failures of the coordinator


def test_a_refused_append_changes_nothing() -> None:
    world = ConsumerWorld()
    (member,) = world.consumers(1)
    epoch = world.group().epoch()
    world.log.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    answer = Consumer(world, "n").join()
    assert answer.code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert list(world.group().members) == ["m0"]
    assert world.group().epoch() == epoch
    world.log.refuses = None
    assert not member.beat().code


def test_nobody_is_told_of_a_state_that_may_be_lost() -> None:
    world = ConsumerWorld()
    world.commits = False
    member = Consumer(world, "m")
    assert not member.join().done
    world.fail_over()
    assert member.last.code is ErrorCode.NOT_COORDINATOR
    assert not len(world.state.groups)
    world.commits = True
    member.join()
    assert member.partitions() == list(range(6))


@pytest.mark.parametrize("keep", [False, True])
def test_a_new_coordinator_goes_on_where_the_old_one_was(keep: bool) -> None:
    world = ConsumerWorld()
    first, second = world.consumers(2)
    third = Consumer(world, "n")
    third.join()
    first.lazy = True
    first.beat()
    world.fail_over(keep_uncommitted=keep)
    assert world.group().state_name() == "Reconciling"
    first.lazy = False
    world.reconcile(first, second, third)
    assert sorted(first.partitions() + second.partitions() + third.partitions()) == list(range(6))


def test_a_new_coordinator_gives_every_member_a_whole_session() -> None:
    world = ConsumerWorld()
    world.consumers(2)
    world.advance(40_000)
    world.fail_over()
    world.advance(44_999)
    assert len(world.group().members) == 2
    world.advance(1)
    assert world.group().is_empty


def test_a_new_coordinator_waits_for_what_has_to_be_given_up() -> None:
    world = ConsumerWorld()
    (slow,) = world.consumers(1, rebalance_ms=10_000)
    slow.lazy = True
    Consumer(world, "n").join()
    slow.beat()
    world.fail_over()
    world.advance(10_000)
    assert list(world.group().members) == ["n"]
