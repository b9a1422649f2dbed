"""Groups change from the classic to the consumer protocol and back, with members of both kinds in one group."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import pytest
from unit.coordinator.consumers import Consumer, ConsumerWorld, with_topics
from unit.coordinator.world import Answer

from penstock.coordinator.group.classic.group import ClassicGroup, State
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.errors import ErrorCode
from penstock.protocol import codec
from penstock.protocol.consumer_protocol import decode_assignment
from penstock.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from penstock.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from penstock.protocol.messages.consumer_protocol_subscription import TopicPartition as Owned
from penstock.protocol.messages.join_group_response import JoinGroupResponse

SUBSCRIPTION_VERSION = 3


def subscription(topics: list[str], owned: list[int], topic: str = "t") -> bytes:
    """What a consumer says that has partitions of a topic."""
    message = ConsumerProtocolSubscription(
        topics=topics, owned_partitions=[Owned(topic=topic, partitions=owned)] if owned else []
    )
    return SUBSCRIPTION_VERSION.to_bytes(2, "big") + codec.encode_bytes(message, SUBSCRIPTION_VERSION)


def assignment(partitions: list[int], topic: str = "t", user_data: bytes | None = None) -> bytes:
    """What the leader of a classic group assigns."""
    message = ConsumerProtocolAssignment(
        assigned_partitions=[TopicPartition(topic=topic, partitions=partitions)], user_data=user_data
    )
    return b"\0\1" + codec.encode_bytes(message, 1)


class ClassicConsumer:
    """A consumer with the classic protocol (cooperative: it keeps what it has when it joins again)."""

    def __init__(self, world: ConsumerWorld, *, instance_id: str | None = None) -> None:
        self.world = world
        self.instance_id = instance_id
        self.member_id = ""
        self.generation_id = -1
        self.owned: list[int] = []
        self.joined: JoinGroupResponse | None = None

    def join(self) -> Answer[JoinGroupResponse]:
        """JoinGroup, with a member id if it needs one."""
        if not self.member_id and self.instance_id is None:
            self.member_id = self.world.member_id()
        answer = self.world.join(
            member_id=self.member_id,
            instance_id=self.instance_id,
            protocols=[("range", subscription(["t"], self.owned))],
        )
        if answer.done and not answer.code:
            self.joined = answer.value
            self.member_id, self.generation_id = answer.value.member_id, answer.value.generation_id
        return answer

    def sync(self) -> ErrorCode:
        """SyncGroup: it takes what it is assigned."""
        assert self.joined is not None
        answer = self.world.sync(self.joined, group_instance_id=self.instance_id)
        if not answer.code:
            found = decode_assignment(answer.value.assignment).assigned_partitions
            self.owned = sorted(found[0].partitions) if found else []
        return answer.code

    def heartbeat(self) -> ErrorCode:
        return self.world.heartbeat(self.member_id, self.generation_id, instance_id=self.instance_id).code

    def live(self) -> None:
        """Heartbeats, and does what the answer asks for."""
        if self.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS:
            self.join()
            self.sync()


def classic_group(
    world: ConsumerWorld, shares: list[list[int]], instances: Sequence[str | None] = (), **options: bytes | None
) -> list[ClassicConsumer]:
    """A stable classic group whose members have these partitions; `instances` are the ids of static members."""
    members = [
        ClassicConsumer(world, instance_id=instance_id)
        for instance_id, _ in zip_longest(instances, shares, fillvalue=None)
    ]
    joins = [member.join() for member in members]
    world.advance(world.settings.group_initial_rebalance_delay_ms * (len(members) + 1))
    for member, join in zip(members, joins, strict=True):
        member.joined, member.generation_id = join.value, join.value.generation_id
        member.member_id = join.value.member_id
    (leader,) = (join.value for join in joins if join.value.members)
    shared = {
        member.member_id: assignment(share, **options)  # type: ignore[arg-type]
        for member, share in zip(members, shares, strict=True)
    }
    world.sync(leader, shared)
    for member, share in zip(members, shares, strict=True):
        assert member.sync() is ErrorCode.NONE
        assert member.owned == share
    return members


def settle(world: ConsumerWorld, *members: Consumer | ClassicConsumer) -> None:
    """All members live until nothing changes."""
    for _ in range(12):
        for member in members:
            if isinstance(member, Consumer):
                member.beat()
            else:
                member.live()


def everything(*members: Consumer | ClassicConsumer) -> list[int]:
    return sorted(
        number
        for member in members
        for number in (member.partitions() if isinstance(member, Consumer) else member.owned)
    )


# Up


def test_a_classic_group_becomes_a_consumer_group_when_a_consumer_joins() -> None:
    world = ConsumerWorld()
    old = classic_group(world, [[0, 1, 2], [3, 4, 5]])
    new = Consumer(world, "new")
    answer = new.join().value
    group = world.group()
    assert (answer.member_epoch, new.partitions()) == (2, [])
    assert group.classic_member_count == 2
    assert [member.owned for member in old] == [[0, 1, 2], [3, 4, 5]]
    settle(world, *old, new)
    assert everything(*old, new) == list(range(6))
    assert [len(member.owned) for member in old] == [2, 2]
    assert group.state_name() == "Stable"


def test_the_members_go_over_one_by_one() -> None:
    world = ConsumerWorld()
    one, two = classic_group(world, [[0, 1, 2], [3, 4, 5]])
    first, second = Consumer(world, "first"), Consumer(world, "second")
    world.leave(one.member_id)
    first.join()
    settle(world, first, two)
    assert everything(first, two) == list(range(6))
    world.leave(two.member_id)
    second.join()
    settle(world, first, second)
    assert everything(first, second) == list(range(6))
    assert world.group().classic_member_count == 0


def test_an_empty_classic_group_makes_way() -> None:
    world = ConsumerWorld()
    (member,) = classic_group(world, [[0, 1]])
    world.leave(member.member_id)
    (new,) = world.consumers(1)
    assert new.partitions() == list(range(6))
    assert isinstance(world.state.groups.get("g"), ConsumerGroup)


def test_an_upgrade_survives_the_coordinator_and_one_that_is_lost_leaves_the_classic_group() -> None:
    world = ConsumerWorld()
    old = classic_group(world, [[0, 1, 2, 3, 4, 5]])
    world.log.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    new = Consumer(world, "new")
    assert new.join().code is ErrorCode.NOT_ENOUGH_REPLICAS
    group = world.state.groups.get("g")
    assert isinstance(group, ClassicGroup)
    assert list(group.members) == [old[0].member_id]
    world.log.refuses = None
    new.join()
    world.fail_over()
    settle(world, *old, new)
    assert everything(*old, new) == list(range(6))


@pytest.mark.parametrize("subscription", [{"topics": ["t"]}, {"topics": None, "regex": "t.*"}])
def test_a_classic_group_whose_members_went_before_their_first_generation_makes_way(
    subscription: dict[str, Any],
) -> None:
    """A member at epoch 0, that of who joins, would not be served once it has partitions."""
    world = ConsumerWorld()
    old = ClassicConsumer(world)
    assert not old.join().done
    world.leave(old.member_id)
    group = world.state.groups.get("g")
    assert isinstance(group, ClassicGroup)
    assert (group.state, group.members) == (State.PREPARING_REBALANCE, {})
    new = Consumer(world, "new", **subscription)
    assert new.join().value.member_epoch == 1
    world.advance(1_000)
    world.reconcile(new)
    assert new.partitions() == list(range(6))


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_a_group_that_may_not_upgrade_stays_classic(policy: str) -> None:
    world = ConsumerWorld(group_consumer_migration_policy=policy)
    (old,) = classic_group(world, [[0]])
    answer = Consumer(world, "new").join()
    assert answer.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert answer.message == "Cannot upgrade classic group g to consumer group because online upgrade is disabled."
    assert old.heartbeat() is ErrorCode.NONE


def test_a_group_with_a_custom_assignor_stays_classic() -> None:
    world = ConsumerWorld()
    classic_group(world, [[0]], user_data=b"mine")
    answer = Consumer(world, "new").join()
    assert answer.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert "an unsupported custom assignor is in use" in answer.message


def test_a_group_whose_subscriptions_cannot_be_read_stays_classic() -> None:
    world = ConsumerWorld()
    (joined,) = world.stable(protocols=[("mine", b"\xff\xff")])
    answer = Consumer(world, "new").join()
    assert answer.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert "malformed" in answer.message
    assert world.heartbeat(joined.member_id).code is ErrorCode.NONE


def mixed_with_an_unreadable_member() -> tuple[ConsumerWorld, Consumer, list[JoinGroupResponse]]:
    """One consumer, and members with the classic protocol; the strategy that most want has no metadata of one."""
    world = ConsumerWorld()
    modern = Consumer(world, "modern", instance_id="i")
    modern.join()
    good = subscription(["t"], [])
    classic = []
    for name, protocols in (
        ("bad", [("range", good), ("x", b"")]),
        ("b", [("x", good), ("range", good)]),
        ("c", [("x", good), ("range", good)]),
    ):
        patient = {"session_ms": 300_000, "rebalance_ms": 300_000}
        member_id = world.join(protocols=protocols, client=name, **patient).value.member_id
        classic.append(world.join(member_id=member_id, protocols=protocols, client=name, **patient).value)
        world.sync(classic[-1])
    assert len(world.group().members) == 4
    return world, modern, classic


def test_a_consumer_leaves_a_group_that_cannot_become_classic() -> None:
    world, modern, _ = mixed_with_an_unreadable_member()
    assert modern.leave().code is ErrorCode.NONE
    assert "modern" not in world.group().members


def test_a_dead_consumer_goes_from_a_group_that_cannot_become_classic() -> None:
    world, _, classic = mixed_with_an_unreadable_member()
    world.advance(world.settings.group_consumer_session_timeout_ms)
    assert sorted(world.group().members) == sorted(member.member_id for member in classic)


def test_a_classic_member_takes_the_place_of_the_last_consumer_of_a_group_that_cannot_become_classic() -> None:
    world, modern, _ = mixed_with_an_unreadable_member()
    modern.leave(epoch=-2)
    both = [("x", subscription(["t"], [])), ("range", subscription(["t"], []))]
    joined = world.join(instance_id="i", protocols=both)
    assert joined.code is ErrorCode.NONE
    assert world.group().classic_member_count == 4


def test_a_group_that_is_too_large_stays_classic() -> None:
    world = ConsumerWorld(group_consumer_max_size=1)
    classic_group(world, [[0], [1]])
    answer = Consumer(world, "new").join()
    assert "the group size exceeds the consumer group maximum size" in answer.message


def test_who_waits_in_a_classic_group_is_told_to_join_again() -> None:
    world = ConsumerWorld()
    (old,) = classic_group(world, [[0, 1, 2, 3, 4, 5]])
    waiting = ClassicConsumer(world)
    answer = waiting.join()
    assert not answer.done
    Consumer(world, "new").join()
    assert answer.code is ErrorCode.REBALANCE_IN_PROGRESS
    assert old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS


def test_what_a_member_had_that_left_before_is_given_away_though_a_static_member_takes_the_place_of_its_like() -> None:
    """Nobody subscribes to anything else than before, and yet the classic group was about to share anew."""
    world = ConsumerWorld(with_topics(t=4))
    _, leaving = classic_group(world, [[0, 1], [2, 3]], ["i", "j"])
    world.leave(leaving.member_id)
    classic = world.state.groups.get("g")
    assert isinstance(classic, ClassicGroup)
    assert classic.state is State.PREPARING_REBALANCE
    successor = Consumer(world, "new", instance_id="i")
    successor.join()
    settle(world, successor)
    assert successor.partitions() == [0, 1, 2, 3]


# Classic members of a consumer group


def mixed(world: ConsumerWorld) -> tuple[Consumer, ClassicConsumer]:
    """A group with a member of each kind."""
    (new,) = world.consumers(1)
    old = ClassicConsumer(world)
    assert old.join().code is ErrorCode.NONE
    assert old.sync() is ErrorCode.NONE
    settle(world, new, old)
    return new, old


def test_a_classic_member_joins_a_consumer_group() -> None:
    world = ConsumerWorld()
    new, old = mixed(world)
    assert (new.partitions(), old.owned) == ([0, 1, 2], [3, 4, 5])
    assert world.group().state_name() == "Stable"
    assert old.joined is not None
    assert (old.joined.protocol_type, old.joined.protocol_name, old.joined.leader) == ("consumer", "range", "")


def test_a_classic_member_is_told_to_come_only_when_there_is_something_to_come_for() -> None:
    world = ConsumerWorld()
    (new,) = world.consumers(1)
    old = ClassicConsumer(world)
    old.join()
    old.sync()
    assert old.heartbeat() is ErrorCode.NONE, "others have to give up first"
    new.beat()
    new.beat()
    assert old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    old.join()
    old.sync()
    assert old.owned == [3, 4, 5]


def test_a_classic_member_that_does_not_come_is_dropped() -> None:
    world = ConsumerWorld()
    new, old = mixed(world)
    third = Consumer(world, "third")
    third.join()
    assert old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    for _ in range(12):
        world.advance(5_000)
        old.heartbeat()
        new.beat()
        third.beat()
    assert old.member_id not in world.group().members
    settle(world, new, third)
    assert everything(new, third) == list(range(6))


def test_a_classic_member_that_does_not_sync_is_dropped() -> None:
    world = ConsumerWorld()
    (new,) = world.consumers(1)
    old = ClassicConsumer(world)
    old.join()
    for _ in range(12):
        world.advance(5_000)
        old.heartbeat()
        new.beat()
    assert old.member_id not in world.group().members


def test_a_classic_member_has_its_own_session_timeout() -> None:
    world = ConsumerWorld()
    _, old = mixed(world)
    world.advance(10_000)
    assert old.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_classic_member_of_an_old_generation_is_fenced() -> None:
    world = ConsumerWorld()
    _, old = mixed(world)
    old.generation_id -= 1
    assert old.heartbeat() is ErrorCode.ILLEGAL_GENERATION
    assert old.joined is not None
    assert world.sync(old.joined, generation_id=1).code is ErrorCode.ILLEGAL_GENERATION
    assert world.sync(old.joined, protocol_name="mine").code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.sync(old.joined, protocol_type="mine").code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_member_of_one_protocol_does_not_speak_the_other() -> None:
    world = ConsumerWorld()
    new, _ = mixed(world)
    answer = world.heartbeat(new.member_id, new.epoch)
    assert (answer.code, answer.message) == (
        ErrorCode.UNKNOWN_MEMBER_ID,
        "Member m0 does not use the classic protocol.",
    )


def test_a_classic_member_with_other_protocols_than_the_others_is_refused() -> None:
    world = ConsumerWorld()
    mixed(world)
    for options in ({"protocols": ["sticky"]}, {"protocol_type": "connect"}):
        answer = world.join(version=3, **options)  # type: ignore[arg-type]
        assert answer.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_no_classic_member_joins_where_migration_is_disabled() -> None:
    world = ConsumerWorld(group_consumer_migration_policy="disabled")
    world.consumers(1)
    answer = world.join(version=3)
    assert answer.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert "because the group migration is disabled" in answer.message


def test_a_dynamic_classic_member_is_told_an_id_first() -> None:
    world = ConsumerWorld()
    world.consumers(1)
    assert len(world.member_id()) == 36
    assert world.group().classic_member_count == 0


def test_a_full_group_takes_no_classic_member() -> None:
    world = ConsumerWorld(group_consumer_max_size=1)
    world.consumers(1)
    assert world.join(version=3).code is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_an_administrator_removes_members_of_both_kinds() -> None:
    world = ConsumerWorld(group_consumer_migration_policy="upgrade")
    new, old = mixed(world)
    answers = world.leave(new.member_id, old.member_id, "who").value.members
    assert [answer.error_code for answer in answers] == [0, 0, ErrorCode.UNKNOWN_MEMBER_ID]
    assert world.group().is_empty


# Down


def test_a_group_becomes_classic_when_its_last_consumer_leaves() -> None:
    world = ConsumerWorld()
    new, old = mixed(world)
    assert not new.leave().code
    group = world.state.groups.get("g")
    assert isinstance(group, ClassicGroup)
    assert group.state is State.PREPARING_REBALANCE
    assert group.generation_id == old.generation_id
    assert old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    joined = old.join()
    assert joined.value.leader == old.member_id
    world.sync(joined.value, {old.member_id: assignment(list(range(6)))})
    assert old.heartbeat() is ErrorCode.NONE


def test_a_group_becomes_classic_when_its_last_consumer_dies() -> None:
    world = ConsumerWorld()
    _, old = mixed(world)
    for _ in range(9):
        world.advance(5_000)
        old.heartbeat()
    assert isinstance(world.state.groups.get("g"), ClassicGroup)


def test_a_downgrade_that_is_lost_leaves_the_consumer_group() -> None:
    world = ConsumerWorld()
    new, old = mixed(world)
    world.log.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    assert new.leave().code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.group().has_member(new.member_id)
    world.log.refuses = None
    assert old.heartbeat() is ErrorCode.NONE
    assert not new.beat().code


def test_a_downgrade_survives_the_coordinator() -> None:
    world = ConsumerWorld()
    new, old = mixed(world)
    new.leave()
    world.fail_over()
    group = world.state.groups.get("g")
    assert isinstance(group, ClassicGroup)
    assert (group.generation_id, list(group.members)) == (old.generation_id, [old.member_id])
    assert old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS, "nobody has what the consumer had"
    assert old.join().value.members
    world.sync(old.joined, {old.member_id: assignment(list(range(6)))})
    world.fail_over()
    assert old.heartbeat() is ErrorCode.NONE, "it has its own generation since"


def test_a_group_that_has_just_become_classic_is_assigned_anew_when_a_static_member_makes_it_a_consumer_group() -> None:
    """The consumer's end is not committed yet, so the group does not rebalance yet."""
    world = ConsumerWorld()
    (new,) = world.consumers(1)
    old = ClassicConsumer(world, instance_id="i")
    old.join()
    old.sync()
    settle(world, new, old)
    assert everything(new, old) == list(range(6))
    world.commits = False
    new.leave()
    assert isinstance(world.state.groups.get("g"), ClassicGroup)
    successor = Consumer(world, "successor", instance_id="i")
    joined = successor.join()
    world.commits = True
    world.commit()
    successor.take(joined.value)
    settle(world, successor)
    assert successor.partitions() == list(range(6))


def test_a_classic_member_takes_the_place_of_the_last_consumer() -> None:
    world = ConsumerWorld(with_topics(t=2))
    new = Consumer(world, "new", instance_id="i")
    new.join()
    new.leave(-2)
    old = ClassicConsumer(world, instance_id="i")
    assert old.join().code is ErrorCode.NONE
    group = world.state.groups.get("g")
    assert isinstance(group, ClassicGroup)
    assert (group.state, list(group.members)) == (State.STABLE, [old.member_id])
    assert old.sync() is ErrorCode.NONE
    assert old.owned == [0, 1], "it has what its predecessor had"
    assert not group.was_consumer_group, "all have what they should"


def test_who_waits_for_what_the_last_consumer_had_is_called_when_that_is_replaced() -> None:
    """The classic group would be stable with what each should have, and nobody would tell who has less."""
    world = ConsumerWorld(with_topics(t=2))
    new = Consumer(world, "new", instance_id="i")
    new.join()
    assert new.partitions() == [0, 1]
    waiting = ClassicConsumer(world)
    assert waiting.join().code is ErrorCode.NONE
    assert waiting.sync() is ErrorCode.NONE
    assert waiting.owned == [], "the consumer is to give one up, and stands still"
    successor = ClassicConsumer(world, instance_id="i")
    assert successor.join().code is ErrorCode.NONE
    assert isinstance(world.state.groups.get("g"), ClassicGroup)
    assert waiting.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_group_that_may_not_downgrade_stays_a_consumer_group() -> None:
    world = ConsumerWorld(group_consumer_migration_policy="upgrade")
    new, old = mixed(world)
    new.leave()
    settle(world, old)
    assert world.group().classic_member_count == 1
    assert old.owned == list(range(6))


def test_where_migration_is_disabled_classic_members_are_not_called_to_join_in_vain() -> None:
    world = ConsumerWorld()
    new, old = mixed(world)
    world.configure(group_consumer_migration_policy="disabled")
    new.leave()
    assert old.heartbeat() is ErrorCode.NONE
    assert world.group().classic_member_count == 1


def test_classic_members_alone_hear_of_topics_that_grow() -> None:
    world = ConsumerWorld(group_consumer_migration_policy="upgrade")
    new, old = mixed(world)
    new.leave()
    settle(world, old)
    world.change_topics(t=8)
    settle(world, old)
    assert old.owned == list(range(8))


def test_a_group_that_is_too_large_for_the_classic_protocol_stays_a_consumer_group() -> None:
    world = ConsumerWorld()
    new, _ = mixed(world)
    world.join(version=3)
    world.configure(group_max_size=1)
    new.leave()
    assert world.group().classic_member_count == 2
