"""Consumers of the consumer group protocol in a world: they keep what they are told, and say what they have.

A consumer gives up at once what it is told to, and says so in its next heartbeat; `Consumer.lazy` makes it keep it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from unit.coordinator.world import Answer, World

from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.heartbeat import consumer_group_heartbeat
from penstock.coordinator.group.context import Context
from penstock.errors import ErrorCode
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.image import (
    EMPTY_IMAGE,
    ConfigResource,
    MetadataImage,
)
from penstock.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from penstock.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from penstock.protocol.messages.metadata.config_record import ConfigRecord
from penstock.protocol.messages.metadata.partition_record import PartitionRecord
from penstock.protocol.messages.metadata.remove_topic_record import RemoveTopicRecord
from penstock.protocol.messages.metadata.topic_record import TopicRecord


def topic_id(name: str) -> UUID:
    """The id of a topic in these tests: its name."""
    return UUID(bytes=name.encode().rjust(16, b"\0"))


def partition_record(name: str, index: int) -> PartitionRecord:
    return PartitionRecord(
        topic_id=topic_id(name), partition_id=index, replicas=[1], isr=[1], leader=1, directories=[UUID(int=1)]
    )


def grow(image: MetadataImage, topics: Mapping[str, int], *, removed: Iterable[str] = ()) -> tuple[MetadataImage, Any]:
    """The image with topics of so many partitions, which may be there already, and the delta."""
    delta = MetadataDelta(image)
    for name in removed:
        delta.replay(RemoveTopicRecord(topic_id=topic_id(name)))
    for name, count in topics.items():
        present = image.topics_by_name.get(name)
        if present is None:
            delta.replay(TopicRecord(name=name, topic_id=topic_id(name)))
        for index in range(0 if present is None else len(present.partitions), count):
            delta.replay(partition_record(name, index))
    return delta.apply(image.offset + 1, 1, 0), delta


def with_topics(**topics: int) -> MetadataImage:
    """An image with topics of so many partitions."""
    return grow(EMPTY_IMAGE, topics)[0]


class ConsumerWorld(World):
    """A world with topics, and consumer groups."""

    def __init__(self, image: MetadataImage | None = None, **config: Any) -> None:
        config.setdefault("group_consumer_assignment_interval_ms", 0)
        super().__init__(image=with_topics(t=6) if image is None else image, **config)
        self.principal = ""

    def group(self, group_id: str = "g") -> ConsumerGroup:
        group = self.state.groups.get(group_id)
        assert isinstance(group, ConsumerGroup)
        return group

    def change_topics(self, *, removed: Iterable[str] = (), **topics: int) -> None:
        """Topics are created, grown or removed."""
        self.image, delta = grow(self.image, topics, removed=removed)
        self.machine.image_changed(self.image, delta, self.now_ms)
        self.settle()

    def configure_group(self, group_id: str = "g", **configs: str) -> None:
        """Sets configs of the group's resource; dots are written as underscores."""
        delta = MetadataDelta(self.image)
        for name, value in configs.items():
            delta.replay(
                ConfigRecord(
                    resource_type=ConfigResource.GROUP,
                    resource_name=group_id,
                    name=name.replace("_", "."),
                    value=value,
                )
            )
        self.image = delta.apply(self.image.offset + 1, 1, 0)
        self.machine.image_changed(self.image, delta, self.now_ms)

    def beat(self, group: str = "g", version: int = 1, **fields: Any) -> Answer[ConsumerGroupHeartbeatResponse]:
        """ConsumerGroupHeartbeat with these fields."""
        request = ConsumerGroupHeartbeatRequest(group_id=group, **fields)
        context = Context(version, "c", "/127.0.0.1", self.principal)
        return self.write(lambda state: consumer_group_heartbeat(state, context, request, self.now_ms), version)

    def consumers(self, count: int, group: str = "g", **fields: Any) -> list[Consumer]:
        """So many new members that have joined, and have been brought to where they should be."""
        members = [Consumer(self, f"m{index}", group, **fields) for index in range(count)]
        for member in members:
            member.join()
        self.reconcile(*members)
        return members

    def reconcile(self, *members: Consumer, rounds: int = 20) -> None:
        """Members send heartbeats until nothing changes for any of them."""
        for _ in range(rounds):
            before = [(member.epoch, dict(member.owned)) for member in members]
            for member in members:
                member.beat()
            if before == [(member.epoch, dict(member.owned)) for member in members] and all(
                member.epoch == self.group(member.group).epoch().group for member in members
            ):
                return
        raise AssertionError(f"members do not come to rest: {members}")


class Consumer:
    """A member.

    Attributes:
        epoch: 0 before it joins. owned: what it has. last: the answer to its last heartbeat.
        unsure: an answer has not come; its next heartbeat says everything, as that of real clients does.
    """

    def __init__(
        self,
        world: ConsumerWorld,
        member_id: str,
        group: str = "g",
        *,
        topics: Sequence[str] | None = ("t",),
        regex: str | None = None,
        instance_id: str | None = None,
        assignor: str | None = None,
        rack_id: str | None = None,
        rebalance_ms: int = 60_000,
    ) -> None:
        self.world = world
        self.member_id = member_id
        self.group = group
        self.topics = None if topics is None else list(topics)
        self.regex = regex
        self.instance_id = instance_id
        self.assignor = assignor
        self.rack_id = rack_id
        self.rebalance_ms = rebalance_ms
        self.epoch = 0
        self.owned: dict[UUID, list[int]] = {}
        self.told: dict[UUID, list[int]] = {}
        self.lazy = False
        self.unsure = False
        self.last: Answer[ConsumerGroupHeartbeatResponse] = Answer(1)

    def __repr__(self) -> str:
        return f"Consumer({self.member_id!r}, epoch {self.epoch}, {self.partitions()})"

    def partitions(self, topic: str = "t") -> list[int]:
        """What it has of a topic."""
        return sorted(self.owned.get(topic_id(topic), []))

    def join(self, **fields: Any) -> Answer[ConsumerGroupHeartbeatResponse]:
        """Its first heartbeat."""
        self.epoch, self.owned, self.told = 0, {}, {}
        return self.send(**{**self.everything(), **fields})

    def everything(self) -> dict[str, Any]:
        """All that a full heartbeat says."""
        return {
            "instance_id": self.instance_id,
            "rack_id": self.rack_id,
            "rebalance_timeout_ms": self.rebalance_ms,
            "subscribed_topic_names": self.topics,
            "subscribed_topic_regex": self.regex,
            "server_assignor": self.assignor,
            "topic_partitions": self.owned_partitions(),
        }

    def owned_partitions(self) -> list[TopicPartitions]:
        return [TopicPartitions(topic_id=topic, partitions=numbers) for topic, numbers in self.owned.items()]

    def beat(self, **fields: Any) -> Answer[ConsumerGroupHeartbeatResponse]:
        """A heartbeat that says what it has, after it has given up what it should."""
        if not self.lazy:
            self.owned = {topic: list(numbers) for topic, numbers in self.told.items()}
        said = {"instance_id": self.instance_id, "topic_partitions": self.owned_partitions()}
        if self.unsure:
            said, self.unsure = self.everything(), False
        return self.send(**{**said, **fields})

    def send(self, **fields: Any) -> Answer[ConsumerGroupHeartbeatResponse]:
        """A heartbeat as given."""
        fields.setdefault("member_epoch", self.epoch)
        self.last = self.world.beat(self.group, member_id=self.member_id, **fields)
        if self.last.done and not self.last.code:
            self.take(self.last.value)
        return self.last

    def take(self, response: ConsumerGroupHeartbeatResponse) -> None:
        """Believes the answer."""
        if response.member_epoch >= 0:
            self.epoch = response.member_epoch
        if response.assignment is not None:
            self.told = {each.topic_id: each.partitions for each in response.assignment.topic_partitions}
            if not self.lazy:
                # It gives up at once what it lost, and takes what it gained.
                self.owned = {topic: list(numbers) for topic, numbers in self.told.items()}

    def leave(self, epoch: int = -1) -> Answer[ConsumerGroupHeartbeatResponse]:
        """Its last heartbeat."""
        return self.send(member_epoch=epoch, instance_id=self.instance_id)

    @property
    def code(self) -> ErrorCode:
        """Of the last answer."""
        return self.last.code
