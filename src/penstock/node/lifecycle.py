"""How a node comes up and goes down: registration, unfencing, and the order of a clean stop."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from penstock.log.manager import ReplicaRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.metadata.brokers import Registration
    from penstock.node.broker import Broker

LEAVE_TIMEOUT_MS = 5_000
"""How long a clean stop waits for the controller to take the leaderships; it goes on without, as Kafka does."""
REPLICAS_PER_STEP = 500


class Lifecycle:
    """The state of a node's life.

    Attributes:
        broker_epoch: of our registration; -1 before it is committed.
        ready: it leads and serves.
        stopping: a clean stop has begun.
        stopped: it is complete.
    """

    def __init__(self, node: Broker) -> None:
        self._node = node
        self.registration: Registration | None = None
        self.broker_epoch = -1
        self.ready = False
        self.stopping = False
        self.stopped = False
        self._closing_logs = False
        self._closing_metadata = False

    def controller_active(self, now_ms: int) -> None:
        """There is a controller: registers this node's broker with it."""
        if self.ready or self.stopping:
            return
        assert self.registration is not None
        self._node.controller.register_broker(self.registration, self._registered, now_ms)

    def _registered(self, broker_epoch: int, now_ms: int) -> None:
        """The image holds our own registration, so all that was decided before: makes our replicas, then leads."""
        node = self._node
        self.broker_epoch = node.replicas.broker_epoch = broker_epoch
        node.logs.set_aside_strays(self._assigned, now_ms)
        node.do(self._make_replicas(now_ms))

    def _assigned(self, topic: str, index: int) -> UUID | None:
        found = self._node.image.topics_by_name.get(topic)
        if found is None or not 0 <= index < len(found.partitions):
            return None
        return found.id if self._node.node_id in found.partitions[index].replicas else None

    def _make_replicas(self, now_ms: int) -> Iterator[None]:
        node = self._node
        batch: list[ReplicaRequest] = []
        for topic in node.image.topics_by_name.values():
            for index, registration in enumerate(topic.partitions):
                if node.node_id in registration.replicas and not node.logs.exists(topic.name, index):
                    wish = registration.directory(node.node_id)
                    batch.append(ReplicaRequest(topic.name, index, topic.id, wish))
            if len(batch) >= REPLICAS_PER_STEP:
                node.logs.create(batch, now_ms)
                batch = []
                yield
        node.logs.create(batch, now_ms)
        if not self.stopping:
            node.followers.begin(now_ms)
            node.controller.unfence_broker(self.published, now_ms)

    def published(self, now_ms: int) -> None:
        """A new image: we are ready once it has us unfenced. If it has forgotten us, we register again."""
        node = self._node
        own = node.image.brokers.get(node.node_id)
        if not self.ready and not self.stopping and own is not None and not own.fenced:
            self.ready = own.epoch == self.broker_epoch
        elif self.ready and own is None:
            self.ready = False
            node.timers.at(now_ms, self.controller_active)

    # The clean stop

    def shutdown(self, now_ms: int) -> None:
        """Begins to stop: gives up leaderships first, while clients are still told who leads."""
        if self.stopping:
            return
        was_ready = self.ready
        self.stopping = True
        self.ready = False
        node = self._node
        if was_ready and node.controller.active:
            node.controller.controlled_shutdown(self._left, now_ms)
            node.timers.at(now_ms + LEAVE_TIMEOUT_MS, self._left)
        else:
            self._left(now_ms)

    def _left(self, now_ms: int) -> None:
        """The controller knows that we go: closes connections and logs."""
        if self._closing_logs:
            return
        self._closing_logs = True
        node = self._node
        for connection in list(node.connections.values()):
            node.close(connection, "the broker is stopping")
        node.publishing.finish_deletions()
        node.followers.stop(now_ms)
        node.logs.stop(self.broker_epoch, now_ms)
        self.proceed(now_ms)

    def proceed(self, now_ms: int) -> None:
        """Something has ended: the metadata log is closed when all other logs are."""
        if self._closing_logs and not self._closing_metadata and self._node.logs.stopped:
            self._closing_metadata = True
            self._node.quorum.shutdown(self._closed, now_ms)

    def _closed(self, now_ms: int) -> None:
        self._node.outgoing.stop()
        self.stopped = True
