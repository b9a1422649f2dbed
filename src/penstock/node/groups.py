"""The group coordinator of a node: which groups are ours, and the runtime that keeps them.

A group belongs to the partition of `__consumer_offsets` that its name's hash says, and so to the broker that leads that
partition. This node is the coordinator of a partition from the moment that its image says so: the partition's log is
opened and replayed, then its groups are served. The topic is made when somebody first asks for a coordinator.
Source: GroupCoordinatorService and AutoTopicCreationManager of Apache Kafka 4.3.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING
from uuid import UUID

from penstock.config.limits import COORDINATOR_TIMER_RETRY_MS, GROUP_PLACES_ID_MAX, GROUP_PLACES_MAX
from penstock.coordinator.group.config import GroupConfig
from penstock.coordinator.group.machine import GroupMachine
from penstock.coordinator.group.maintenance import delete_topics
from penstock.coordinator.runtime.runtime import Runtime
from penstock.coordinator.runtime.shard import Shard, ShardState
from penstock.coordinator.runtime.timers import ShardTimers
from penstock.errors import ErrorCode, RequestError
from penstock.log.manager import NotOpen
from penstock.metadata import topics as topic_control
from penstock.node.coordinated import LedPartition
from penstock.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from penstock.protocol.messages.create_topics_response import CreateTopicsResponse
from penstock.replication.partition import Partition

if TYPE_CHECKING:
    from penstock.metadata.delta import MetadataDelta, TopicDelta
    from penstock.metadata.image import MetadataImage
    from penstock.node.broker import Broker
    from penstock.protocol.message import Message

OFFSETS_TOPIC = "__consumer_offsets"
LEAD_RETRY_MS = 20

logger = logging.getLogger(__name__)


class GroupCoordinator:
    """See the module's head. Handlers use `runtime` and `partition_of`."""

    def __init__(self, node: Broker) -> None:
        self._node = node
        self._config: GroupConfig | None = None
        self._counted_in: MetadataImage | None = None
        self._partition_count = 0
        self._creating: list[Callable[[int], None]] | None = None
        self._why_no_topic = ""
        self._deleted: dict[int, list[tuple[str, UUID]]] = {}
        self.runtime: Runtime[GroupMachine] = Runtime(
            OFFSETS_TOPIC,
            "group",
            self._machine,
            do=node.do,
            now=lambda: node.now_ms,
            write_timeout_ms=node.settings.offsets_commit_timeout_ms,
            linger_ms=node.settings.group_coordinator_append_linger_ms,
            bug=node.bug,
            loaded=self._loaded,
        )

    def _machine(self, index: int, timers: ShardTimers) -> GroupMachine:
        node = self._node
        return GroupMachine(index, timers, config=self.config, random=node.random, image=node.image)

    def config(self) -> GroupConfig:
        """What the settings say of groups, as of now."""
        if self._config is None:
            self._config = GroupConfig.of(self._node.settings)
        return self._config

    # Where a group belongs

    def partition_of(self, group_id: str) -> int:
        """The partition of the group. Raises RequestError(COORDINATOR_NOT_AVAILABLE) while there is no such topic."""
        image = self._node.image
        if image is not self._counted_in:
            topic = image.topics_by_name.get(OFFSETS_TOPIC)
            self._partition_count = 0 if topic is None else len(topic.partitions)
            self._counted_in = image
        if not self._partition_count:
            raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"there is no topic {OFFSETS_TOPIC} yet")
        return partition_for(group_id, self._partition_count)

    def create_topic(self, then: Callable[[int], None], now_ms: int) -> None:
        """Has the topic made by the active controller; `then(now_ms)` when it has answered, well or not."""
        if self._creating is not None:
            self._creating.append(then)
            return
        self._creating = [then]
        settings = self._node.settings
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(settings.offsets_topic_segment_bytes),
        }
        topic = CreatableTopic(
            name=OFFSETS_TOPIC,
            num_partitions=settings.offsets_topic_num_partitions,
            replication_factor=settings.offsets_topic_replication_factor,
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
        )
        controller = self._node.controller
        if not controller.active:
            self._node.channel.to_controller(CreateTopicsRequest(topics=[topic]), self._answered, now_ms)
            return
        result = topic_control.create_topics(controller.state, [topic])
        (created,) = result.response
        if not isinstance(created, topic_control.CreatedTopic):
            self._created(why_no_topic(created.code, created.message), now_ms)
            return
        try:
            controller.append(
                result.records,
                lambda at_ms: self._created("", at_ms),
                lambda code, at_ms: self._created(code.name, at_ms),
                now_ms,
            )
        except RequestError as error:
            self._created(str(error), now_ms)

    def _answered(self, answer: Message | None, now_ms: int) -> None:
        why = "the controller does not answer"
        if isinstance(answer, CreateTopicsResponse):
            (topic,) = answer.topics
            why = why_no_topic(ErrorCode(topic.error_code), topic.error_message)
        self._created(why, now_ms)

    def _created(self, why_not: str, now_ms: int) -> None:
        waiting, self._creating = self._creating, None
        if why_not and why_not != self._why_no_topic:  # once: clients ask again and again
            logger.warning(
                "%s could not be made, so there are no groups: %s (offsets.topic.replication.factor is %d)",
                *(OFFSETS_TOPIC, why_not, self._node.settings.offsets_topic_replication_factor),
            )
        self._why_no_topic = why_not
        for then in waiting or ():
            then(now_ms)

    # Metadata

    def published(self, old: MetadataImage, new: MetadataImage, delta: MetadataDelta, now_ms: int) -> None:
        """There is a new image, and the replicas know of it."""
        if delta.configs:
            self._config = None
        for gone in delta.deleted_topics.values():
            if gone.name == OFFSETS_TOPIC:
                for index in range(len(gone.partitions)):
                    self.runtime.resigned(index, now_ms)
        for changed in delta.topics.values():
            if changed.name == OFFSETS_TOPIC:
                self._partitions_changed(changed, now_ms)
        deleted = [(gone.name, gone.id) for gone in delta.deleted_topics.values()]
        for index, shard in list(self.runtime.shards.items()):
            if shard.state is ShardState.ACTIVE:
                shard.machine.image_changed(new, delta, now_ms)
                self._delete_offsets(index, deleted, now_ms)
            elif shard.state is ShardState.LOADING:
                self._deleted.setdefault(index, []).extend(deleted)

    def _loaded(self, shard: Shard[GroupMachine], now_ms: int) -> None:
        """A shard has the image from before it was loaded: it is told of what has changed since."""
        deleted = self._deleted.pop(shard.index, [])
        if shard.machine.image is not self._node.image:
            shard.machine.image_changed(self._node.image, None, now_ms)
            self._delete_offsets(shard.index, deleted, now_ms)

    def _delete_offsets(self, index: int, topics: Sequence[tuple[str, UUID]], now_ms: int) -> None:
        """Removes the offsets of deleted topics, all of them: a topic of the same name must not inherit them."""

        def done(is_more: bool | None, code: ErrorCode, message: str, at_ms: int) -> None:
            if code is not ErrorCode.NOT_COORDINATOR and (code or is_more):
                delay_ms = COORDINATOR_TIMER_RETRY_MS if code else 0
                self._node.timers.at(at_ms + delay_ms, lambda then_ms: self._delete_offsets(index, topics, then_ms))

        if topics:
            self.runtime.write(index, partial(delete_topics, topics=topics, now_ms=now_ms), done, now_ms)

    def _partitions_changed(self, changed: TopicDelta, now_ms: int) -> None:
        for index, registration in changed.partitions.items():
            if registration.leader != self._node.node_id:
                self.runtime.resigned(index, now_ms)
            else:
                self._lead(index, now_ms)

    def _lead(self, index: int, now_ms: int) -> None:
        """Becomes the coordinator of a partition as soon as its log is open.

        One that is led on in a new epoch goes on as it is; if it has failed, it is loaded again.
        """
        node = self._node
        registration = node.image.partition(OFFSETS_TOPIC, index)
        if registration is None or registration.leader != node.node_id or node.lifecycle.stopping:
            return
        try:
            partition = node.replicas.leader(OFFSETS_TOPIC, index, now_ms)
        except NotOpen as missing:
            missing.opening.when_done.append(lambda at_ms: self._lead(index, at_ms))
            return
        if not isinstance(partition, Partition):
            if partition is ErrorCode.NOT_LEADER_OR_FOLLOWER:  # its log is still being cut
                node.timers.at(now_ms + LEAD_RETRY_MS, lambda at_ms: self._lead(index, at_ms))
            return
        shard = self.runtime.shards.get(index)
        if shard is not None and isinstance(shard.log, LedPartition) and shard.log.partition is partition:
            in_new_epoch = shard.leader_epoch != partition.leader_epoch
            shard.leader_epoch = partition.leader_epoch
            if shard.state is not ShardState.FAILED or not in_new_epoch:
                return
        self._deleted.pop(index, None)
        self.runtime.elected(
            index, LedPartition(node, partition, lambda at_ms: self.runtime.resigned(index, at_ms)), now_ms
        )


def why_no_topic(code: ErrorCode, message: str | None) -> str:
    """Why there is no topic after an answer to its creation; empty if there is one, this node's doing or not."""
    return "" if code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS) else f"{code.name}: {message}"


def partition_for(group_id: str, partition_count: int) -> int:
    """Kafka's place of a group: Java's hash of the name, its absolute value, modulo the number of partitions."""
    absolute = remembered_hash if len(group_id) <= GROUP_PLACES_ID_MAX else absolute_hash
    return absolute(group_id) % partition_count


def absolute_hash(group_id: str) -> int:
    """The absolute value of Java's hash of a text, as Kafka takes it: 0 for the number that has none."""
    code = 0
    encoded = group_id.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(encoded), 2):
        code = (31 * code + (encoded[position] << 8 | encoded[position + 1])) & 0xFFFFFFFF
    if code >= 0x80000000:
        code = 0 if code == 0x80000000 else 0x100000000 - code
    return code


remembered_hash = lru_cache(GROUP_PLACES_MAX)(absolute_hash)
"""The same for ids that come again and again."""
