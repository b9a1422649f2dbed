"""Consumer groups under random joins, leaves, deaths, changes and failures of the coordinator.

Invariants: nobody has what another has not given up; epochs of the group never fall back behind what was committed; a
commit of an old epoch is fenced unless the member has had the partition since; in the end everybody has its share.

Once with groups that are assigned at once, and once in steps of a member, with all of that between two of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from unit.coordinator.consumers import Consumer, ConsumerWorld, topic_id, with_topics

from penstock.coordinator.group.assignors.spec import Partitions
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.member import ConsumerMember
from penstock.errors import ErrorCode, RequestError

TOPICS = ("t", "u")
GONE = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.FENCED_INSTANCE_ID,
)


def are_disjoint(targets: Iterable[Partitions]) -> bool:
    """Whether no partition is in two of them."""
    wanted = [(topic, number) for target in targets for topic, numbers in target.items() for number in numbers]
    return len(wanted) == len(set(wanted))


def commit(group: ConsumerGroup, member: ConsumerMember, topic: UUID, number: int) -> None:
    """A commit at the epoch before the member's."""
    check = group.check_commit(member.member_id, None, member.member_epoch - 1, 9, transactional=False)
    assert check is not None
    check("t", topic, number)


class ConsumerGroupModel(RuleBasedStateMachine):
    """Members that live in the world outside, each believing what it was told last."""

    STEP = 500
    INTERVAL_MS = 200

    def __init__(self) -> None:
        super().__init__()
        self.world = ConsumerWorld(
            with_topics(t=5, u=3),
            group_consumer_assignment_interval_ms=self.INTERVAL_MS,
            penstock_group_consumer_assignment_step=self.STEP,
        )
        self.members: dict[str, Consumer] = {}
        self.next_id = 0
        self.group_epoch = 0

    def group(self) -> ConsumerGroup | None:
        found = self.world.state.groups.find("g")
        assert found is None or isinstance(found, ConsumerGroup)
        return found

    def pick(self, index: int) -> Consumer:
        return list(self.members.values())[index % len(self.members)]

    def heard(self, member: Consumer) -> None:
        """A member that was told it is not one any more gives everything up and joins again."""
        if member.code in GONE:
            member.lazy = False
            member.join()
            if member.code:
                del self.members[member.member_id]

    # What happens

    @rule(topics=st.sets(st.sampled_from(TOPICS), min_size=1), assignor=st.sampled_from([None, "range"]))
    def join(self, topics: set[str], assignor: str | None) -> None:
        member = Consumer(self.world, f"m{self.next_id}", topics=sorted(topics), assignor=assignor, rebalance_ms=30_000)
        self.next_id += 1
        if not member.join().code:
            self.members[member.member_id] = member

    @precondition(lambda self: self.members)
    @rule(index=st.integers(0, 20), lazy=st.booleans())
    def heartbeat(self, index: int, lazy: bool) -> None:
        member = self.pick(index)
        member.lazy = lazy
        member.beat()
        self.heard(member)

    @precondition(lambda self: self.members)
    @rule(index=st.integers(0, 20), topics=st.sets(st.sampled_from(TOPICS), min_size=1))
    def subscribe(self, index: int, topics: set[str]) -> None:
        member = self.pick(index)
        member.topics = sorted(topics)
        member.beat(subscribed_topic_names=sorted(topics))
        self.heard(member)

    @precondition(lambda self: self.members)
    @rule(index=st.integers(0, 20))
    def leave(self, index: int) -> None:
        member = self.pick(index)
        del self.members[member.member_id]
        member.leave()

    @precondition(lambda self: self.members)
    @rule(index=st.integers(0, 20))
    def die(self, index: int) -> None:
        """It is not heard of any more, and uses nothing from now on."""
        del self.members[self.pick(index).member_id]

    @rule(ms=st.integers(1, 9_000))
    def wait(self, ms: int) -> None:
        self.world.advance(ms)

    @rule(topic=st.sampled_from(TOPICS))
    def grow(self, topic: str) -> None:
        topic_image = self.world.image.topics_by_name[topic]
        if len(topic_image.partitions) < 12:
            self.world.change_topics(**{topic: len(topic_image.partitions) + 1})

    @rule(keep=st.booleans())
    def fail_over(self, keep: bool) -> None:
        self.world.fail_over(keep_uncommitted=keep)

    @precondition(lambda self: self.members)
    @rule(index=st.integers(0, 20))
    def lose_a_heartbeat_with_the_coordinator(self, index: int) -> None:
        """What is appended is not committed, and is lost with the leadership."""
        member = self.pick(index)
        before = member.epoch, member.owned, member.told
        self.world.commits = False
        member.beat()
        self.world.fail_over()
        self.world.commits = True
        member.epoch, member.owned, member.told = before
        member.unsure = True
        self.world.settle()

    @precondition(lambda self: self.members)
    @rule(index=st.integers(0, 20))
    def miss_an_answer(self, index: int) -> None:
        """The coordinator has handled a heartbeat whose answer the member never saw."""
        member = self.pick(index)
        before = member.epoch, member.told
        member.lazy = True
        member.beat()
        member.epoch, member.told = before
        member.lazy, member.unsure = False, True
        self.heard(member)

    # What must hold

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        group = self.group()
        owners: dict[tuple[str, int], str] = {}
        for member in self.members.values():
            if group is None or member.member_id not in group.members:
                continue  # a zombie, which will be told
            for topic in TOPICS:
                for number in member.partitions(topic):
                    other = owners.setdefault((topic, number), member.member_id)
                    assert other == member.member_id, f"{topic}-{number} is owned by {other} and {member.member_id}"

    @invariant()
    def no_partition_is_meant_for_two(self) -> None:
        group = self.group()
        if group is not None:
            assert are_disjoint(target for _, target in group.targets.items())
            assert are_disjoint(group.target(member) for _, member in group.members.items())

    @invariant()
    def epochs_do_not_fall(self) -> None:
        group = self.group()
        if group is not None:
            assert group.epoch().group >= self.group_epoch
            self.group_epoch = group.epoch().group
            assert group.epoch().assignment <= group.epoch().group

    @invariant()
    def what_is_counted_is_what_is_there(self) -> None:
        group = self.group()
        if group is None:
            return
        members = [member for _, member in group.members.items()]
        names = {name for member in members for name in member.subscribed_topic_names}
        assert set(group.topics) == names
        index = self.world.state.topics.groups
        assert {topic for topic in TOPICS if list(index.of(topic)) == [group.group_id]} == names
        owned = {
            (topic, number): member.member_epoch
            for member in members
            for partitions in (member.assigned, member.pending_revocation)
            for topic, numbers in partitions.items()
            for number in numbers
        }
        assert dict(group.owners.items()) == owned
        epoch = group.epoch().assignment
        assert group.stable_count(epoch) == sum(member.is_reconciled_to(epoch) for member in members)

    @invariant()
    def only_who_has_a_partition_commits_for_it(self) -> None:
        group = self.group()
        if group is None:
            return
        for _, member in group.members.items():
            others = [(topic_id(topic), 0) for topic in TOPICS if 0 not in member.assigned.get(topic_id(topic), ())]
            for topic, number in others:
                if number in member.pending_revocation.get(topic, ()) or member.member_epoch < 1:
                    continue
                with pytest.raises(RequestError) as refused:
                    commit(group, member, topic, number)
                assert refused.value.code is ErrorCode.STALE_MEMBER_EPOCH

    def teardown(self) -> None:
        """Left alone, everybody comes to its share."""
        if not self.members:
            return
        for member in self.members.values():
            member.lazy = False
        for _ in range(40):
            self.world.advance(5_000)
            for member in list(self.members.values()):
                member.beat()
                self.heard(member)
        group = self.group()
        assert group is not None
        assert group.state_name() == "Stable"
        for topic in TOPICS:
            subscribed = [member for member in self.members.values() if topic in (member.topics or ())]
            count = len(self.world.image.topics_by_name[topic].partitions)
            had = sorted(number for member in subscribed for number in member.partitions(topic))
            assert had == (list(range(count)) if subscribed else [])


ConsumerGroupModel.TestCase.settings = settings(
    max_examples=60, stateful_step_count=40, suppress_health_check=list(HealthCheck)
)
TestConsumerGroups = ConsumerGroupModel.TestCase


class SteppedModel(ConsumerGroupModel):
    """The same, with assignments that take many steps."""

    STEP = 1
    INTERVAL_MS = 0

    @rule(ms=st.integers(1, 12))
    def some_steps(self, ms: int) -> None:
        self.world.advance(ms)

    @precondition(lambda self: self.members)
    @rule(index=st.integers(0, 20), ms=st.integers(1, 8))
    def refuse(self, index: int, ms: int) -> None:
        """What is written for a while is refused: steps, and a member that comes again."""
        self.world.log.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
        self.world.advance(ms)
        member = self.pick(index)
        member.beat(**member.everything())
        member.unsure = bool(member.code)
        self.world.log.refuses = None
        self.heard(member)

    @precondition(lambda self: self.members)
    @rule(index=st.integers(0, 20), ms=st.integers(1, 8), keep=st.booleans())
    def fail_over_in_the_middle(self, index: int, ms: int, keep: bool) -> None:
        self.world.advance(ms)
        self.world.fail_over(keep_uncommitted=keep)
        member = self.pick(index)
        member.beat()
        self.heard(member)


SteppedModel.TestCase.settings = settings(
    max_examples=100, stateful_step_count=50, suppress_health_check=list(HealthCheck)
)
TestLargeConsumerGroups = SteppedModel.TestCase
