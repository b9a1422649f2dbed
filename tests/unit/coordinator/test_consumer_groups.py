"""Members of consumer groups join, share, leave and are lost (KIP-848)."""

from __future__ import annotations

import logging

import pytest
from unit.coordinator.consumers import Consumer, ConsumerWorld, topic_id, with_topics

from penstock.coordinator.group.consumer.member import MemberState
from penstock.coordinator.group.groups import Groups
from penstock.coordinator.group.maintenance import delete_topics
from penstock.errors import ErrorCode


def test_the_first_member_gets_everything_at_once() -> None:
    world = ConsumerWorld()
    member = Consumer(world, "m")
    answer = member.join().value
    assert (answer.member_id, answer.member_epoch) == ("m", 2)
    assert member.partitions() == [0, 1, 2, 3, 4, 5]
    assert world.group().state_name() == "Stable"


def test_a_second_member_gets_what_the_first_has_given_up() -> None:
    world = ConsumerWorld()
    (first,) = world.consumers(1)
    second = Consumer(world, "n")
    second.join()
    assert (second.epoch, second.partitions()) == (3, [])
    assert world.group().members["n"].state is MemberState.UNRELEASED_PARTITIONS

    first.lazy = True
    first.beat()
    assert first.epoch == 2, "it has to give up some before it comes to the new epoch"
    assert world.group().state_name() == "Reconciling"
    assert second.beat().value.assignment is None, "nothing is free yet"

    first.lazy = False
    first.beat()
    assert (first.epoch, first.partitions()) == (3, [0, 1, 2])
    second.beat()
    assert second.partitions() == [3, 4, 5]
    assert world.group().state_name() == "Stable"


def test_no_partition_has_two_owners_whatever_the_order_of_heartbeats() -> None:
    world = ConsumerWorld(with_topics(t=7, u=5))
    members = world.consumers(4, topics=("t", "u"))
    owned = [(topic, number) for member in members for topic, numbers in member.owned.items() for number in numbers]
    assert len(owned) == len(set(owned)) == 12
    assert {len(member.partitions("t")) + len(member.partitions("u")) for member in members} == {3}


def test_what_a_leaving_member_had_goes_to_the_others() -> None:
    world = ConsumerWorld()
    first, second = world.consumers(2)
    assert second.leave().value.member_epoch == -1
    assert second.member_id not in world.group().members
    world.reconcile(first)
    assert first.partitions() == [0, 1, 2, 3, 4, 5]


def test_the_last_member_leaves_an_empty_group() -> None:
    world = ConsumerWorld()
    (member,) = world.consumers(1)
    epoch = world.group().epoch().group
    member.leave()
    assert world.group().is_empty
    assert world.group().state_name() == "Empty"
    assert world.group().epoch().group == epoch + 1


def test_a_member_that_is_not_heard_of_is_dropped_at_the_end_of_its_session() -> None:
    world = ConsumerWorld(group_consumer_session_timeout_ms=45_000)
    first, _ = world.consumers(2)
    world.advance(44_999)
    assert len(world.group().members) == 2
    first.beat()
    world.advance(1)
    assert list(world.group().members) == [first.member_id]
    world.reconcile(first)
    assert first.partitions() == [0, 1, 2, 3, 4, 5]


def test_a_member_that_does_not_give_up_its_partitions_in_time_is_dropped() -> None:
    world = ConsumerWorld()
    (slow,) = world.consumers(1, rebalance_ms=10_000)
    slow.lazy = True
    other = Consumer(world, "n")
    other.join()
    slow.beat()
    world.advance(9_999)
    slow.beat()
    assert "m0" in world.group().members
    world.advance(1)
    assert "m0" not in world.group().members
    world.reconcile(other)
    assert other.partitions() == [0, 1, 2, 3, 4, 5]
    assert slow.beat().code is ErrorCode.UNKNOWN_MEMBER_ID


def test_who_has_given_up_its_partitions_is_not_dropped() -> None:
    world = ConsumerWorld()
    (member,) = world.consumers(1, rebalance_ms=10_000)
    other = Consumer(world, "n")
    other.join()
    world.reconcile(member, other)
    world.advance(20_000)
    assert len(world.group().members) == 2


def test_a_member_subscribes_to_other_topics() -> None:
    world = ConsumerWorld(with_topics(t=2, u=3))
    (member,) = world.consumers(1)
    member.beat(subscribed_topic_names=["u"])
    world.reconcile(member)
    assert (member.partitions("t"), member.partitions("u")) == ([], [0, 1, 2])


def test_a_topic_is_taken_at_once_from_who_does_not_subscribe_any_more_even_before_the_next_assignment() -> None:
    world = ConsumerWorld(with_topics(t=2, u=3), group_consumer_assignment_interval_ms=10_000)
    (member,) = world.consumers(1, topics=("t", "u"))
    member.lazy = True
    answer = member.beat(subscribed_topic_names=["u"]).value
    assert answer.assignment is not None
    assert [each.topic_id for each in answer.assignment.topic_partitions] == [topic_id("u")]
    assert world.group().members["m0"].state is MemberState.UNREVOKED_PARTITIONS
    member.lazy = False
    member.beat()
    assert world.group().members["m0"].pending_revocation == {}


def test_a_member_may_subscribe_to_topics_that_do_not_exist_yet() -> None:
    world = ConsumerWorld()
    (member,) = world.consumers(1, topics=("later",))
    assert member.owned == {}
    world.change_topics(later=3)
    world.reconcile(member)
    assert member.partitions("later") == [0, 1, 2]


def test_a_topic_that_grows_is_shared_anew() -> None:
    world = ConsumerWorld()
    members = world.consumers(2)
    world.change_topics(t=8)
    world.reconcile(*members)
    assert sorted(members[0].partitions() + members[1].partitions()) == list(range(8))


def test_a_topic_that_is_deleted_is_taken_away() -> None:
    world = ConsumerWorld(with_topics(t=2, u=2))
    (member,) = world.consumers(1, topics=("t", "u"))
    world.change_topics(removed=["u"])
    world.reconcile(member)
    assert list(member.owned) == [topic_id("t")]


def test_a_change_of_other_topics_is_no_concern_of_the_group() -> None:
    world = ConsumerWorld()
    (member,) = world.consumers(1)
    epoch = world.group().epoch().group
    world.change_topics(other=3)
    member.beat()
    assert world.group().epoch().group == epoch


def test_a_change_of_topics_costs_nothing_to_the_groups_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    world = ConsumerWorld(with_topics(t=1, u=1))
    looked_at: list[str] = []
    find = Groups.find
    monkeypatch.setattr(Groups, "find", lambda groups, group_id: looked_at.append(group_id) or find(groups, group_id))
    monkeypatch.setattr(Groups, "all", lambda groups: pytest.fail("all groups are looked at"))
    for group, topic in (("g", "t"), ("h", "u"), ("i", "u")):
        Consumer(world, "m", group, topics=[topic]).join()
        world.commit_offsets({(topic, 0): 1}, group=f"{group} alone")
    looked_at.clear()
    world.change_topics(t=2)
    assert looked_at == ["g"]
    looked_at.clear()
    deleted = delete_topics(world.state, [("t", topic_id("t"))], world.now_ms)
    assert [record.key.group for record in deleted.records] == ["g alone"]  # type: ignore[attr-defined]
    assert not looked_at


def test_assignments_are_computed_no_oftener_than_the_interval() -> None:
    world = ConsumerWorld(group_consumer_assignment_interval_ms=1_000)
    (first,) = world.consumers(1)
    second, third = (Consumer(world, name) for name in "no")
    second.join()
    third.join()
    assert world.group().epoch().assignment == 2
    assert world.group().state_name() == "Assigning"
    assert second.partitions() == []
    world.advance(1_000)
    first.beat()
    epoch = world.group().epoch()
    assert epoch.assignment == epoch.group == 4
    world.reconcile(first, second, third)
    assert [len(member.partitions()) for member in (first, second, third)] == [2, 2, 2]


def test_the_assignor_that_most_ask_for_is_taken() -> None:
    world = ConsumerWorld(with_topics(t=2, u=2))
    members = world.consumers(2, topics=("t", "u"), assignor="range")
    assert [(member.partitions("t"), member.partitions("u")) for member in members] == [([0], [0]), ([1], [1])]


def test_two_groups_do_not_know_of_each_other() -> None:
    world = ConsumerWorld()
    (one,) = world.consumers(1, group="g")
    (two,) = world.consumers(1, group="h")
    assert one.partitions() == two.partitions() == list(range(6))


def test_an_old_version_is_told_a_member_id() -> None:
    world = ConsumerWorld()
    answer = world.beat(
        version=0, member_epoch=0, rebalance_timeout_ms=1_000, subscribed_topic_names=["t"], topic_partitions=[]
    )
    assert len(answer.value.member_id or "") == 36
    assert answer.value.member_id in world.group().members


def test_the_log_has_who_joins_and_who_goes_and_no_heartbeat(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "penstock")
    world = ConsumerWorld()
    first, second = world.consumers(2)
    joined = [line for line in caplog.messages if line.startswith("member joined ")]
    assert [line.split()[3] for line in joined] == [f"member={each.member_id}" for each in (first, second)]
    assert all(" client=" in line and " host=" in line for line in joined)
    world.reconcile(first, second)
    caplog.clear()
    for _ in range(5):
        first.beat()
        second.beat()
    assert caplog.messages == []
    second.leave()
    assert [line.split()[3] for line in caplog.messages if line.startswith("member left ")] == [
        f"member={second.member_id}"
    ]


def test_a_member_that_becomes_static_while_it_waits_still_gets_what_it_should_have() -> None:
    world = ConsumerWorld()
    (first,) = world.consumers(1)
    first.lazy = True
    second = Consumer(world, "second")
    second.join()
    first.beat()
    second.beat()
    assert world.group().member("second").state is MemberState.UNRELEASED_PARTITIONS
    second.instance_id = "i"
    second.join()
    first.lazy = False
    world.reconcile(first, second)
    assert (len(first.partitions()), len(second.partitions())) == (3, 3)
