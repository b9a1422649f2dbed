"""What a new metadata image changes on this broker: replicas created and deleted, leaderships, configurations.

The image is swapped at once, so handlers never see half of it. The cost is proportional to the delta; the replicas of a
large new topic are created in steps, and one that is needed earlier is created on the spot (`Replicas.leader`). A
deleted topic is no longer led from this moment, and its logs are deleted in steps, all of them before a topic of the
same name is created and before the node stops. Configurations are applied before leaderships: a leader must know the
`min.insync.replicas` by which the controller has decided who is in sync.

While a node starts and reads its metadata, images are of the past: no replica is created or deleted before the image
contains the node's own registration. A topic that was deleted then may have the name of one that exists now.

An error in one topic, or in one part of the node, keeps the new image from no other (Kafka does the same, and counts
such errors in metadata-apply-error-count).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from penstock.errors import ConfigError
from penstock.log.manager import LogManager, ReplicaRequest
from penstock.metadata.image import EMPTY, ConfigResource, MetadataImage
from penstock.node.assignments import Assignments
from penstock.node.moves import Moves
from penstock.node.scheduler import Scheduler
from penstock.node.state import NodeState
from penstock.node.throttles import ReplicationThrottles
from penstock.replication.replicas import Replicas

if TYPE_CHECKING:
    from penstock.metadata.delta import MetadataDelta, TopicDelta
    from penstock.metadata.image import TopicImage

REPLICAS_PER_STEP = 200
CLUSTER_DEFAULT = ""
"""Name of the BROKER resource whose configs hold for all brokers."""

logger = logging.getLogger(__name__)


class Publishing:
    """Applies deltas to the log manager and the replicas."""

    def __init__(
        self,
        state: NodeState,
        scheduler: Scheduler,
        logs: LogManager,
        replicas: Replicas,
        *,
        throttles: ReplicationThrottles,
        assignments: Assignments,
        moves: Moves,
    ) -> None:
        self._state = state
        self._scheduler = scheduler
        self._logs = logs
        self._replicas = replicas
        self._throttles = throttles
        self._assignments = assignments
        self._moves = moves
        self._deletions: dict[str, Iterator[None]] = {}

    def publish(self, old: MetadataImage, new: MetadataImage, delta: MetadataDelta, now_ms: int) -> None:
        """Applies a delta; the node's image is `new` already."""
        self._replicas.set_image(new)
        for topic in delta.deleted_topics.values():
            self._apply(f"the deletion of {topic.name}", self._topic_deleted, topic, now_ms)
        self._apply("changed configs", self._configs_changed, delta, now_ms)
        for changed in delta.topics.values():
            self._apply(f"the change of {changed.name}", self._topic_changed, changed, old, now_ms)
        if delta.brokers:
            self._apply("changed brokers", self._replicas.brokers_changed, now_ms)

    def _apply(self, what: str, change: Callable[..., None], *args: object) -> None:
        self._scheduler.guarded("metadata", what, change, *args)

    def _topic_deleted(self, topic: TopicImage, now_ms: int) -> None:
        self._replicas.topic_deleted(topic.name, topic.id, len(topic.partitions), now_ms)
        if self._replicas.caught_up:
            self._delete_logs(topic.name, len(topic.partitions))

    def _delete_logs(self, topic: str, partition_count: int) -> None:
        deletion = self._deletions[topic] = self._deletion(topic, partition_count)
        if next(deletion, self) is not self:
            self._scheduler.do(deletion)

    def _deletion(self, topic: str, partition_count: int) -> Iterator[None]:
        for index in range(partition_count):
            if index and not index % REPLICAS_PER_STEP:
                yield
            self._moves.cancel(topic, index, self._scheduler.now_ms)
            self._logs.delete(topic, index, self._scheduler.now_ms)
        del self._deletions[topic]

    def _finish_deletion(self, topic: str) -> None:
        for _ in self._deletions.get(topic, ()):
            pass

    def finish_deletions(self) -> None:
        """Deletes now what was to be deleted in steps."""
        for topic in list(self._deletions):
            self._finish_deletion(topic)

    def _topic_changed(self, changed: TopicDelta, old: MetadataImage, now_ms: int) -> None:
        if changed.created:
            self._finish_deletion(changed.name)
        for index, registration in changed.partitions.items():
            name = f"the change of {changed.name}-{index}"
            self._apply(name, self._replicas.partition_changed, changed.name, index, registration, now_ms)
        if self._replicas.caught_up:
            self._place(changed, old, now_ms)

    def _place(self, changed: TopicDelta, old: MetadataImage, now_ms: int) -> None:
        """Creates and deletes replicas of this node according to a topic's new state."""
        requests = []
        before = old.topics_by_id.get(changed.id)
        for index, registration in changed.partitions.items():
            exists = self._logs.exists(changed.name, index)
            if self._state.node_id not in registration.replicas:
                if exists:
                    self._moves.cancel(changed.name, index, now_ms)
                    self._logs.delete(changed.name, index, now_ms)
            elif not exists:
                had = before.partitions[index].replicas if before is not None and index < len(before.partitions) else ()
                wish, is_new = registration.directory(self._state.node_id), self._state.node_id not in had
                requests.append(ReplicaRequest(changed.name, index, changed.id, wish, is_new=is_new))
        if requests:
            self._logs.create(requests[:REPLICAS_PER_STEP], now_ms)
            if len(requests) > REPLICAS_PER_STEP:
                self._scheduler.do(self._create_rest(requests[REPLICAS_PER_STEP:], now_ms))
        for index, registration in changed.partitions.items():
            self._assignments.look(changed.name, changed.id, index, registration)
            self._moves.published(changed.name, index, now_ms)

    def _create_rest(self, requests: list[ReplicaRequest], now_ms: int) -> Iterator[None]:
        image = self._state.image
        for start in range(0, len(requests), REPLICAS_PER_STEP):
            wanted = requests[start : start + REPLICAS_PER_STEP]
            if image is not self._state.image:
                wanted = [request for request in wanted if self.is_ours(request)]
            self._logs.create(wanted, now_ms)
            for request in wanted:
                topic = self._state.image.topics_by_id[request.topic_id]
                index = request.partition
                self._assignments.look(topic.name, topic.id, index, topic.partitions[index])
            yield

    def is_ours(self, request: ReplicaRequest) -> bool:
        """Whether a replica is still to be created: the image may be newer than the request for it."""
        topic = self._state.image.topics_by_id.get(request.topic_id)
        return topic is not None and self._state.node_id in topic.partitions[request.partition].replicas

    def _configs_changed(self, delta: MetadataDelta, now_ms: int) -> None:
        topics: dict[str, None] = {}
        for resource_type, name in delta.configs:
            if resource_type == ConfigResource.TOPIC:
                topics[name] = None
            elif resource_type == ConfigResource.BROKER and name in (CLUSTER_DEFAULT, str(self._state.node_id)):
                self._broker_changed()
                topics.update(dict.fromkeys(self._state.image.topics_by_name))
        for name in topics:
            if name in self._state.image.topics_by_name:
                self._logs.config_changed(name)

    def _broker_changed(self) -> None:
        configs = self._state.image.configs
        try:
            self._state.settings = self._state.settings.with_dynamic(
                configs.get((ConfigResource.BROKER, CLUSTER_DEFAULT)) or EMPTY,
                configs.get((ConfigResource.BROKER, str(self._state.node_id))) or EMPTY,
            )
        except ConfigError as error:
            logger.warning("dynamic configs are left as they were: %s", error)
            return
        self._logs.settings_changed(self._state.settings)
        self._throttles.configure(self._state.settings)
