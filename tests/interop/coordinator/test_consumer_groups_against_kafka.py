"""Our coordinator and Kafka's answer the same, and write the same records, whatever members of a group do.

Kafka walks through sets in the order of their hashes. Here member ids are single letters, topics too, and partitions
few, so that this order is ours.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from interop.coordinator.group_peer import answers_of_kafka
from interop.coordinator.recording import RecordingWorld, outcome_of
from unit.coordinator.consumers import Consumer, topic_id

from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.consumer.embedded import encode_assignment
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.runtime.result import CoordinatorRecord
from penstock.errors import ErrorCode
from penstock.protocol import codec
from penstock.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription, TopicPartition
from penstock.protocol.messages.group.group_metadata_key import GroupMetadataKey
from penstock.protocol.messages.group.group_metadata_value import GroupMetadataValue, MemberMetadata
from penstock.protocol.messages.heartbeat_request import HeartbeatRequest
from penstock.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from penstock.protocol.messages.sync_group_request import SyncGroupRequest

pytestmark = pytest.mark.java

SCENARIOS = 120
STEPS = 90
LETTERS = "abcdefghijklmno"
TOPICS = "tuvwx"
REGEXES = ["t|u", "[u-w]", ".*", "x+"]


class Classic:
    """A member with the classic protocol."""

    def __init__(self, world: RecordingWorld, member_id: str, topics: list[str]) -> None:
        self.world = world
        self.member_id = member_id
        self.topics = topics
        self.generation_id = -1
        self.owned: dict[str, list[int]] = {}

    def subscription(self) -> bytes:
        owned = [TopicPartition(topic=topic, partitions=numbers) for topic, numbers in self.owned.items()]
        return b"\0\1" + codec.encode_bytes(ConsumerProtocolSubscription(topics=self.topics, owned_partitions=owned), 1)

    def join(self) -> None:
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=20_000,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=self.subscription())],
        )
        answer = self.world.ask("join", request, 9)
        if answer.response is not None and not answer.code:
            self.generation_id = answer.value.generation_id

    def sync(self) -> None:
        request = SyncGroupRequest(
            group_id="g",
            generation_id=self.generation_id,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name="range",
        )
        answer = self.world.ask("sync", request, 5)
        if answer.response is not None and not answer.code:
            member = self.world.group().members[self.member_id]
            names = {topic_id(name): name for name in TOPICS}
            self.owned = {names[topic]: sorted(numbers) for topic, numbers in member.assigned.items()}

    def heartbeat(self) -> None:
        request = HeartbeatRequest(group_id="g", generation_id=self.generation_id, member_id=self.member_id)
        if self.world.ask("heartbeat", request, 4).code is ErrorCode.REBALANCE_IN_PROGRESS:
            self.join()
            self.sync()

    def leave(self) -> None:
        request = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=self.member_id)])
        self.world.ask("leave", request, 5)


class Scenario:
    """Members do at random what members may do, and what they may not."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.world = RecordingWorld()
        self.counts = {name: self.random.randint(1, 4) for name in TOPICS[: self.random.randint(1, 5)]}
        self.world.set_topics(self.counts, brokers=True)
        self.members: dict[str, Consumer] = {}
        self.away: list[Consumer] = []
        self.classic: dict[str, Classic] = {}
        self.assignor = self.random.choice([None, "range", "uniform"])
        self.uses_regexes = self.random.random() < 0.4
        self.uses_classic = self.random.random() < 0.4
        self.is_static = self.random.random() < 0.4
        if self.uses_classic and self.random.random() < 0.6:
            self.begin_classic()

    def begin_classic(self) -> None:
        """The group is a classic one at first, in which some topics are shared out somehow."""
        generation = self.random.randint(1, 5)
        letters = self.random.sample(LETTERS, self.random.randint(1, 3))
        shares: dict[str, dict[str, list[int]]] = {letter: {} for letter in letters}
        topics = self.some_topics()
        for topic in topics:
            for number in range(self.counts.get(topic, 0)):
                shares[self.random.choice(letters)].setdefault(topic, []).append(number)
        members = []
        for letter in letters:
            member = self.classic[letter] = Classic(self.world, letter, topics)
            member.generation_id, member.owned = generation, shares[letter]
            members.append(
                MemberMetadata(
                    member_id=letter,
                    client_id="c",
                    client_host="/127.0.0.1",
                    rebalance_timeout=20_000,
                    session_timeout=10_000,
                    subscription=member.subscription(),
                    assignment=encode_assignment(
                        {topic_id(topic): numbers for topic, numbers in shares[letter].items()}, 1, self.world.image
                    ),
                )
            )
        value = GroupMetadataValue(
            protocol_type="consumer", generation=generation, protocol="range", leader=letters[0], members=members
        )
        self.world.record(CoordinatorRecord(GroupMetadataKey(group="g"), value, 3))
        self.join()

    def run(self) -> RecordingWorld:
        actions: list[tuple[int, Callable[[], None]]] = [
            (8, self.join),
            (60, self.beat),
            (4, self.subscribe),
            (4, self.leave),
            (4, self.come_back),
            (6, self.misbehave),
            (3, self.change_topics),
            (4, self.wait),
            (4, self.world.describe),
            (6, self.commit),
            (12 if self.uses_classic else 0, self.be_classic),
        ]
        for _ in range(STEPS):
            self.world.advance(self.random.randint(1, 700))
            action = self.random.choices([each for _, each in actions], [weight for weight, _ in actions])[0]
            if isinstance(self.world.state.groups.find("g"), ClassicGroup) and self.random.random() < 0.8:
                action = self.be_classic
            action()
            if self.world.knows_better:
                self.world.forget_last()
                break
        return self.world

    def free_letter(self) -> str | None:
        used = {*self.members, *self.classic, *(member.member_id for member in self.away)}
        group = self.world.state.groups.find("g")
        if isinstance(group, ConsumerGroup):
            used.update(group.members)
        free = [letter for letter in LETTERS if letter not in used]
        return self.random.choice(free) if free else None

    def some_topics(self) -> list[str]:
        return sorted(self.random.sample(TOPICS, self.random.randint(1, 4)))

    def subscription(self) -> dict[str, Any]:
        if self.uses_regexes and self.random.random() < 0.6:
            names = self.some_topics() if self.random.random() < 0.2 else []
            return {"subscribed_topic_names": names, "subscribed_topic_regex": self.random.choice(REGEXES)}
        return {"subscribed_topic_names": self.some_topics(), "subscribed_topic_regex": ""}

    def join(self) -> None:
        letter = self.free_letter()
        if letter is None:
            return
        instance_id = f"i{letter}" if self.is_static and self.random.random() < 0.6 else None
        member = Consumer(
            self.world,
            letter,
            instance_id=instance_id,
            assignor=self.assignor,
            rebalance_ms=self.random.choice([3_000, 60_000]),
        )
        member.join(**self.subscription())
        if not member.code:
            self.members[letter] = member

    def some_member(self) -> Consumer | None:
        return self.random.choice(list(self.members.values())) if self.members else None

    def beat(self) -> None:
        member = self.some_member()
        if member is None:
            return
        member.lazy = self.random.random() < 0.15
        if self.random.random() < 0.1:
            member.beat(**{**member.everything(), **self.subscription()})
        else:
            member.beat()
        if member.code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            member.lazy = False
            member.join(**self.subscription())
        if member.code:
            del self.members[member.member_id]

    def subscribe(self) -> None:
        member = self.some_member()
        if member is not None:
            member.beat(**self.subscription())

    def leave(self) -> None:
        member = self.some_member()
        if member is None:
            return
        if member.instance_id is not None and self.random.random() < 0.7:
            member.leave(-2)
            self.away.append(member)
        else:
            member.leave()
        del self.members[member.member_id]

    def come_back(self) -> None:
        letter = self.free_letter()
        if not self.away or letter is None:
            return
        old = self.away.pop()
        member = Consumer(self.world, letter, instance_id=old.instance_id, assignor=self.assignor)
        member.join(**self.subscription())
        if not member.code:
            self.members[letter] = member

    def misbehave(self) -> None:
        member = self.some_member()
        if member is None:
            self.world.beat(member_id="a", member_epoch=self.random.choice([-1, 1]))
            return
        match self.random.randrange(6):
            case 0:
                member.send(member_epoch=member.epoch + 1)
            case 1:
                member.send(member_epoch=max(member.epoch - self.random.randint(1, 3), 1))
            case 2:
                member.send(member_epoch=max(member.epoch - 1, 1), topic_partitions=member.owned_partitions())
            case 3:
                self.world.beat(member_id="z", member_epoch=self.random.choice([-1, 3]))
            case 4:
                self.world.beat(
                    member_id="z", member_epoch=self.random.choice([-2, -1, 3]), instance_id=f"i{member.member_id}"
                )
            case 5:
                Consumer(self.world, "z", instance_id=member.instance_id or "iz", topics=["t"]).join(
                    subscribed_topic_names=None, subscribed_topic_regex="(a"
                )

    def change_topics(self) -> None:
        name = self.random.choice(TOPICS)
        if name in self.world.image.topics_by_name and self.random.random() < 0.3:
            self.world.set_topics({}, removed=[name])
        else:
            # One that comes again has its old id here, so it must not be smaller than it was.
            self.counts[name] = self.counts.get(name, 0) + self.random.randint(1, 3)
            self.world.set_topics({name: self.counts[name]})

    def commit(self) -> None:
        if not isinstance(self.world.state.groups.find("g"), ConsumerGroup):
            return
        group = self.world.group()
        member_id = self.random.choice([*group.members, *group.members, "z"])
        member = group.members.get(member_id)
        epoch = 1 if member is None else member.member_epoch + self.random.choice([-2, -1, -1, 0, 1])
        version = self.random.choice([8, 9, 10])
        self.world.check_commit(member_id, epoch, self.random.choice(TOPICS), self.random.randrange(5), version)

    def wait(self) -> None:
        self.world.advance(self.random.choice([2_000, 9_000, 11_000, 30_000]))

    def be_classic(self) -> None:
        group = self.world.state.groups.find("g")
        if isinstance(group, ClassicGroup):
            self.be_downgraded(group)
            return
        if not self.members or group is None or group.is_empty:
            return  # Kafka forgets an empty consumer group, but not in its log, when a classic member asks to join it
        if not self.classic or self.random.random() < 0.15:
            letter = self.free_letter()
            if letter is not None:
                self.classic[letter] = Classic(self.world, letter, self.some_topics())
                self.classic[letter].join()
                self.classic[letter].sync()
            return
        member = self.random.choice(list(self.classic.values()))
        if self.random.random() < 0.1:
            member.leave()
            del self.classic[member.member_id]
        else:
            member.heartbeat()
            if member.member_id not in self.world.group().members:
                del self.classic[member.member_id]

    def be_downgraded(self, group: ClassicGroup) -> None:
        """The last member of the new protocol has gone: those of the old one say that they live, or leave."""
        if not self.classic:
            return
        member = self.random.choice(list(self.classic.values()))
        if self.random.random() < 0.1:
            member.leave()
            del self.classic[member.member_id]
            return
        request = HeartbeatRequest(group_id="g", generation_id=group.generation_id, member_id=member.member_id)
        self.world.downgraded += self.world.ask("heartbeat", request, 4).code is not ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.slow
def test_random_groups_are_answered_as_kafka_answers_them() -> None:
    worlds = [Scenario(seed).run() for seed in range(SCENARIOS)]
    answers = answers_of_kafka([world.scenario() for world in worlds])
    compared = 0
    for seed, (world, theirs) in enumerate(zip(worlds, answers, strict=True)):
        for step, (operation, ours, answer) in enumerate(zip(world.operations, world.outcomes, theirs, strict=True)):
            compared += 1
            assert ours == outcome_of(operation, answer), f"seed {seed}, step {step}, {operation['operation']}"
    assert compared > 10_000
    assert sum(world.downgraded for world in worlds) > 50
