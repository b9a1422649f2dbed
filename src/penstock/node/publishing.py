"""What a new metadata image changes on this broker: replicas made and deleted, leaderships, configurations.

The image is swapped at once, so handlers never see half of it. What it costs is what the delta changed; replicas of a
large new topic are made in steps, and one that somebody asks for before its turn is made on the spot
(`Replicas.leader`). Those of a deleted topic are led no more at once, and their logs go in steps, all of them before a
topic of the same name is made and before the node stops. Configurations come before leaderships: how far a leader may
go depends on the `min.insync.replicas` by which the controller has decided who is in sync.

A node that starts reads its metadata in steps, and the first images are of the past: no replica is made or deleted
before they have come to its own registration. A topic that was deleted then may have had the name of one that is here.

What is raised for one topic, or by one part of the node, keeps nobody else from the new image (as in Kafka, which
counts it in metadata-apply-error-count).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from penstock.errors import ConfigError
from penstock.log.manager import ReplicaRequest
from penstock.metadata.image import EMPTY, ConfigResource, MetadataImage
from penstock.node.assignments import Assignments
from penstock.node.lifecycle import REPLICAS_PER_STEP

if TYPE_CHECKING:
    from penstock.metadata.delta import MetadataDelta, TopicDelta
    from penstock.metadata.image import TopicImage
    from penstock.node.broker import Broker

CLUSTER_DEFAULT = ""
"""Name of the BROKER resource whose configs hold for all brokers."""

logger = logging.getLogger(__name__)


class Publishing:
    """Applies deltas to the log manager and the replicas.

    Attributes: `assignments`, what the controller is told of log directories.
    """

    def __init__(self, node: Broker) -> None:
        self._node = node
        self.assignments = Assignments(node)
        self._deletions: dict[str, Iterator[None]] = {}

    def publish(self, old: MetadataImage, new: MetadataImage, delta: MetadataDelta, now_ms: int) -> None:
        """The node's image is `new` already."""
        node = self._node
        node.replicas.set_image(new)
        for topic in delta.deleted_topics.values():
            self._apply(f"the deletion of {topic.name}", self._topic_deleted, topic, now_ms)
        self._apply("changed configs", self._configs_changed, delta, now_ms)
        for changed in delta.topics.values():
            self._apply(f"the change of {changed.name}", self._topic_changed, changed, old, now_ms)
        if any(changed.partitions for changed in delta.topics.values()):
            self._apply("fetches of followers", node.fetches.answer_followers, now_ms)
        if delta.brokers:
            self._apply("changed brokers", node.replicas.brokers_changed, now_ms)
        for coordinator in node.coordinators.all:
            self._apply(f"the {coordinator.name} coordinator", coordinator.published, delta, now_ms)
        self._apply("this node's own registration", node.lifecycle.published, now_ms)

    def _apply(self, what: str, change: Callable[..., None], *args: object) -> None:
        self._node.guarded("metadata", what, change, *args)

    def _topic_deleted(self, topic: TopicImage, now_ms: int) -> None:
        node = self._node
        node.replicas.topic_deleted(topic.name, topic.id, len(topic.partitions), now_ms)
        node.topic_metrics.forget(topic.name)
        if node.replicas.caught_up:
            self._delete_logs(topic.name, len(topic.partitions))

    def _delete_logs(self, topic: str, partition_count: int) -> None:
        deletion = self._deletions[topic] = self._deletion(topic, partition_count)
        if next(deletion, self) is not self:
            self._node.do(deletion)

    def _deletion(self, topic: str, partition_count: int) -> Iterator[None]:
        node = self._node
        for index in range(partition_count):
            if index and not index % REPLICAS_PER_STEP:
                yield
            node.moves.cancel(topic, index, node.now_ms)
            node.logs.delete(topic, index, node.now_ms)
        del self._deletions[topic]

    def _finish_deletion(self, topic: str) -> None:
        for _ in self._deletions.get(topic, ()):
            pass

    def finish_deletions(self) -> None:
        """Deletes at once what was to be deleted in steps."""
        for topic in list(self._deletions):
            self._finish_deletion(topic)

    def _topic_changed(self, changed: TopicDelta, old: MetadataImage, now_ms: int) -> None:
        node = self._node
        if changed.created:
            self._finish_deletion(changed.name)
        for index, registration in changed.partitions.items():
            name = f"the change of {changed.name}-{index}"
            self._apply(name, node.replicas.partition_changed, changed.name, index, registration, now_ms)
        if node.replicas.caught_up:
            self._place(changed, old, now_ms)

    def _place(self, changed: TopicDelta, old: MetadataImage, now_ms: int) -> None:
        """Replicas of this node are made and deleted as the topic's new state says."""
        node = self._node
        requests = []
        before = old.topics_by_id.get(changed.id)
        for index, registration in changed.partitions.items():
            exists = node.logs.exists(changed.name, index)
            if node.node_id not in registration.replicas:
                if exists:
                    node.moves.cancel(changed.name, index, now_ms)
                    node.logs.delete(changed.name, index, now_ms)
            elif not exists:
                had = before.partitions[index].replicas if before is not None and index < len(before.partitions) else ()
                wish, is_new = registration.directory(node.node_id), node.node_id not in had
                requests.append(ReplicaRequest(changed.name, index, changed.id, wish, is_new=is_new))
        if requests:
            node.logs.create(requests[:REPLICAS_PER_STEP], now_ms)
            if len(requests) > REPLICAS_PER_STEP:
                node.do(self._create_rest(requests[REPLICAS_PER_STEP:], now_ms))
        for index, registration in changed.partitions.items():
            self.assignments.look(changed.name, changed.id, index, registration)
            node.moves.published(changed.name, index, now_ms)

    def _create_rest(self, requests: list[ReplicaRequest], now_ms: int) -> Iterator[None]:
        node, image = self._node, self._node.image
        for start in range(0, len(requests), REPLICAS_PER_STEP):
            wanted = requests[start : start + REPLICAS_PER_STEP]
            if image is not node.image:
                wanted = [request for request in wanted if self.is_ours(request)]
            node.logs.create(wanted, now_ms)
            for request in wanted:
                topic = node.image.topics_by_id[request.topic_id]
                index = request.partition
                self.assignments.look(topic.name, topic.id, index, topic.partitions[index])
            yield

    def is_ours(self, request: ReplicaRequest) -> bool:
        """Whether a replica is still to be made: there may be a newer image than when it was asked for."""
        topic = self._node.image.topics_by_id.get(request.topic_id)
        return topic is not None and self._node.node_id in topic.partitions[request.partition].replicas

    def _configs_changed(self, delta: MetadataDelta, now_ms: int) -> None:
        node = self._node
        topics: dict[str, None] = {}
        for resource_type, name in delta.configs:
            if resource_type == ConfigResource.TOPIC:
                topics[name] = None
            elif resource_type == ConfigResource.BROKER and name in (CLUSTER_DEFAULT, str(node.node_id)):
                self._broker_changed()
                topics.update(dict.fromkeys(node.image.topics_by_name))
        for name in topics:
            if name in node.image.topics_by_name:
                node.logs.config_changed(name)

    def _broker_changed(self) -> None:
        node = self._node
        cordoned = node.settings.cordoned_log_dirs
        configs = node.image.configs
        try:
            node.state.settings = node.settings.with_dynamic(
                configs.get((ConfigResource.BROKER, CLUSTER_DEFAULT)) or EMPTY,
                configs.get((ConfigResource.BROKER, str(node.node_id))) or EMPTY,
            )
        except ConfigError as error:
            logger.warning("dynamic configs are left as they were: %s", error)
            return
        node.logs.settings_changed(node.settings)
        node.throttles.configure(node.settings)
        if node.settings.cordoned_log_dirs != cordoned:
            node.lifecycle.directories_changed(node.now_ms)
        node.fetches.sessions.capacity = node.settings.max_incremental_fetch_session_cache_slots
