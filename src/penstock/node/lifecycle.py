"""How a node starts and stops: registration, heartbeats, unfencing, and the order of a clean stop.

A broker registers with the active controller and sends it heartbeats (KIP-631). It stays fenced until it has followed
the metadata log up to its own registration, so that it knows all earlier decisions, and has created its replicas; then
it asks to be unfenced, and is ready when its own image says so. A controller is registered, too (KIP-919); a node that
is only a controller is ready with its first image.

While the active controller is in the same process, heartbeats are sent only when there is something to report: that
controller knows that this node is alive.

A clean stop asks the controller, by heartbeats, to take the leaderships; then, or after LEAVE_TIMEOUT_MS, it closes the
connections and the logs, and last the metadata log.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID

from penstock.errors import ErrorCode, StorageError
from penstock.log.manager import ReplicaRequest
from penstock.metadata.brokers import Registration
from penstock.metadata.directories import CORDONS_FROM_LEVEL
from penstock.node.publishing import REPLICAS_PER_STEP
from penstock.protocol.messages import broker_registration_request, controller_registration_request
from penstock.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from penstock.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from penstock.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from penstock.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from penstock.protocol.messages.controller_registration_request import ControllerRegistrationRequest
from penstock.protocol.messages.controller_registration_response import ControllerRegistrationResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from penstock.metadata.image import BrokerRegistration, Endpoint
    from penstock.node.channel import Channel, ControllerCall
    from penstock.node.controller import ControllerNode
    from penstock.node.outgoing import Outgoing, Peer
    from penstock.node.quorum import Quorum
    from penstock.node.replication import Replication
    from penstock.node.scheduler import Scheduler
    from penstock.node.state import NodeState
    from penstock.node.timers import Timer
    from penstock.protocol.message import Message

LEAVE_TIMEOUT_MS = 5_000
"""How long a clean stop waits for the controller to take the leaderships; it goes on without, as Kafka does."""
SHUTDOWN_HEARTBEAT_TIMEOUT_MS = 1_000
"""How long a clean stop waits for one answer of the controller: there may be none any more."""
SHUTDOWN_HEARTBEAT_INTERVAL_MS = 20
"""Between two heartbeats that ask whether this broker may stop."""
RETRY_MS = 100
"""Between two tries of a registration that was refused, and two heartbeats that wait for something to be granted."""
REFUSED_FOR_GOOD = {
    ErrorCode.INVALID_REGISTRATION: "its log directories or features are not acceptable",
    ErrorCode.UNSUPPORTED_VERSION: "it does not support a feature level that the cluster has finalized",
    ErrorCode.INCONSISTENT_CLUSTER_ID: "it belongs to another cluster",
}
"""Answers to a registration that no waiting helps against; see the controller's log for the particulars."""
USED_TWICE = "is its node.id that of another node as well?"


class Lifecycle:
    """The state of a node's life.

    Attributes:
        registration: what this node's broker registers with; None for a controller that is no broker.
        controller_endpoints: what this node's controller registers with; None for a broker that is no controller.
    """

    def __init__(
        self,
        state: NodeState,
        scheduler: Scheduler,
        replication: Replication,
        channel: Channel,
        outgoing: Outgoing,
        *,
        quorum: Callable[[], Quorum],
        controller: Callable[[], ControllerNode],
        close_connections: Callable[[str], None],
    ) -> None:
        """`quorum` and `controller` return this node's; `close_connections` closes all, for the reason given."""
        self._state = state
        self._scheduler = scheduler
        self._replication = replication
        self._logs = replication.logs
        self._directories = replication.logs.table.directories
        self._channel = channel
        self._outgoing = outgoing
        self._quorum = quorum
        self._controller = controller
        self._close_connections = close_connections
        self._cordoned_before = state.settings.cordoned_log_dirs
        self.registration: Registration | None = None
        self.controller_endpoints: Sequence[Endpoint] | None = None
        self.incarnation_id = UUID(int=0)
        self._granted = False
        self._has_replicas = False
        self._registering = False
        self._registered = False
        self._seen_as_controller = False
        self._shutdown_heartbeats = 0
        self._heartbeat: ControllerCall | None = None
        self._heartbeat_due: Timer | None = None
        self._closing_logs = False
        self._closing_metadata = False
        self._brokers: Mapping[int, BrokerRegistration] = {}
        self._topics: object = None
        outgoing.on_link_lost.append(self._link_lost)
        self._leaving: frozenset[int] = frozenset()
        self._lets_others_go = False

    # Coming up

    def identify(self, endpoints: Sequence[Endpoint], controller_endpoints: Sequence[Endpoint] | None) -> None:
        """Makes the registrations of this node, with a new incarnation id."""
        settings = self._state.settings
        self.incarnation_id = UUID(int=self._scheduler.random.getrandbits(128), version=4)
        if settings.is_controller:
            self.controller_endpoints = controller_endpoints
        if settings.is_broker:
            self.registration = Registration(
                broker_id=self._state.node_id,
                incarnation_id=self.incarnation_id,
                endpoints=tuple(endpoints),
                log_dirs=(),
                rack=settings.broker_rack,
                previous_broker_epoch=self._logs.previous_broker_epoch,
            )

    def start(self, now_ms: int) -> None:
        """Begins to register the broker. Calls wait in the channel until there is a controller."""
        if self.registration is not None:
            online = tuple(found.id for found in self._directories if found.id is not None and found.error is None)
            self.registration = replace(self.registration, log_dirs=online)
            timeout_ms = self._state.settings.initial_broker_registration_timeout_ms
            self._register(now_ms, now_ms + timeout_ms)

    def _register(self, now_ms: int, deadline_ms: int) -> None:
        registration = self.registration
        assert registration is not None
        request = BrokerRegistrationRequest(
            broker_id=registration.broker_id,
            cluster_id=self._logs.cluster_id,
            incarnation_id=registration.incarnation_id,
            listeners=[
                broker_registration_request.Listener(
                    name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol
                )
                for each in registration.endpoints
            ],
            features=[
                broker_registration_request.Feature(
                    name=name, min_supported_version=lowest, max_supported_version=highest
                )
                for name, (lowest, highest) in registration.features.items()
            ],
            rack=registration.rack,
            log_dirs=list(registration.log_dirs),
            previous_broker_epoch=registration.previous_broker_epoch,
        )

        def answered(answer: Message | None, at_ms: int) -> None:
            self._registration_answered(answer, at_ms, deadline_ms)

        self._channel.to_controller(request, answered, now_ms, timeout_ms=max(0, deadline_ms - now_ms))

    def _registration_answered(self, answer: Message | None, now_ms: int, deadline_ms: int) -> None:
        if self._state.stopping:
            return
        assert answer is None or isinstance(answer, BrokerRegistrationResponse)
        code = ErrorCode.REQUEST_TIMED_OUT if answer is None else ErrorCode(answer.error_code)
        if answer is not None and code is ErrorCode.NONE:
            self._state.broker_epoch = answer.broker_epoch
            self._granted = True
            self._beat(now_ms)
            self.published(now_ms)
        elif code in REFUSED_FOR_GOOD:
            self._fail(f"the controller refuses this broker ({code.name}): {REFUSED_FOR_GOOD[code]}")
        elif now_ms + RETRY_MS >= deadline_ms:
            seconds = self._state.settings.initial_broker_registration_timeout_ms / 1000
            hint = f"; {USED_TWICE}" if code is ErrorCode.DUPLICATE_BROKER_REGISTRATION else ""
            self._fail(
                f"no controller has registered this broker within {seconds:g} s (the last answer: {code.name}{hint})"
            )
        else:
            self._scheduler.timers.at(now_ms + RETRY_MS, lambda at_ms: self._register(at_ms, deadline_ms), duty=True)

    def _fail(self, sentence: str) -> None:
        self._state.fail(StorageError(sentence))

    def published(self, now_ms: int) -> None:
        """A new image: it may register or unfence us, lack our controller, or change the cordoned directories."""
        cordoned = self._state.settings.cordoned_log_dirs
        if cordoned != self._cordoned_before:
            self._cordoned_before = cordoned
            self.directories_changed(now_ms)
        if self._state.stopping:
            own = self._state.own_registration
            if own is not None and own.fenced and own.epoch == self._state.broker_epoch:
                self._may_leave(now_ms)  # at once: a client that is told of a cluster without any broker may forget us
            return
        if self._replaced():
            return
        if self.controller_endpoints is not None:
            self._register_controller(now_ms)
        if self.registration is None:
            self._state.ready = True
        if self._granted:
            self._look_at_itself(now_ms)

    def _look_at_itself(self, now_ms: int) -> None:
        """Acts on what the image says about this broker, which has registered."""
        own = self._state.own_registration
        if (
            own is None and self._state.image.offset >= self._state.broker_epoch
        ):  # its epoch is where its registration stands
            self._register_again(now_ms)
        if own is None or own.epoch != self._state.broker_epoch:
            return
        if not self._replication.replicas.caught_up:
            self._replication.replicas.caught_up = True
            self._logs.strays.set_aside(self._assigned, self._assigned_directory, now_ms)
            self._logs.begin(now_ms)
            self._replication.moves.resume(now_ms)
            self._scheduler.do(self._make_replicas())
        elif not self._state.ready and not own.fenced:
            self._state.ready = True
        self._note_leaving(now_ms)

    def _note_leaving(self, now_ms: int) -> None:
        """Sends a heartbeat when another broker is stopping: it waits until all have seen the image without its
        leaderships.
        """
        brokers, topics = self._state.image.brokers, self._state.image.topics_by_id
        news = topics is not self._topics and bool(self._leaving)
        self._topics = topics
        if brokers is not self._brokers:
            self._brokers, before = brokers, self._leaving
            self._leaving = frozenset(
                each.id for each in brokers.values() if each.in_controlled_shutdown and not each.fenced
            )
            news = not self._leaving <= before or (news and bool(self._leaving))
        if news:
            self._beat(now_ms)

    def _replaced(self) -> bool:
        """Whether another process has registered under this node's id since; then this one ends.

        Otherwise both would lead the same partitions, as they may in Kafka.
        """
        broker = self._state.own_registration
        newer = broker is not None and self._granted and self._state.broker_epoch < broker.epoch
        controller = self._state.image.controllers.get(self._state.node_id)
        if controller is not None and controller.incarnation_id == self.incarnation_id:
            self._seen_as_controller = True
        for what, other, counts in (("broker", broker, newer), ("controller", controller, self._seen_as_controller)):
            if other is not None and counts and other.incarnation_id != self.incarnation_id:
                places = ", ".join(f"{each.host}:{each.port}" for each in other.endpoints)
                self._fail(f"another process has registered as {what} {self._state.node_id} ({places}); {USED_TWICE}")
                return True
        return False

    def _register_again(self, now_ms: int) -> None:
        """This broker has been unregistered although it is alive: registers again."""
        self._state.ready = False
        self._granted = False
        self._silence()
        self.start(now_ms)

    def _assigned(self, topic: str, index: int) -> UUID | None:
        found = self._state.image.topics_by_name.get(topic)
        if found is None or not 0 <= index < len(found.partitions):
            return None
        return found.id if self._state.node_id in found.partitions[index].replicas else None

    def _assigned_directory(self, topic: str, index: int) -> UUID | None:
        found = self._state.image.topics_by_name.get(topic)
        if found is None or not 0 <= index < len(found.partitions):
            return None
        return found.partitions[index].directory(self._state.node_id)

    def _make_replicas(self) -> Iterator[None]:
        batch: list[ReplicaRequest] = []
        for topic in self._state.image.topics_by_name.values():
            for index, registration in enumerate(topic.partitions):
                if self._state.node_id in registration.replicas and not self._logs.exists(topic.name, index):
                    wish = registration.directory(self._state.node_id)
                    batch.append(ReplicaRequest(topic.name, index, topic.id, wish, is_new=False))
            if len(batch) >= REPLICAS_PER_STEP:
                self._make(batch)
                batch = []
                yield
        self._make(batch)
        self._has_replicas = True
        if not self._state.stopping:
            self._replication.followers.begin(self._scheduler.now_ms)
            self._scheduler.do(self._replication.assignments.look_at_all())
            self._beat(self._scheduler.now_ms)

    def _make(self, wanted: list[ReplicaRequest]) -> None:
        self._logs.create(
            [request for request in wanted if self._replication.publishing.is_ours(request)], self._scheduler.now_ms
        )

    # Heartbeats

    def directories_changed(self, now_ms: int) -> None:
        """Tells the controller at once that a log directory has failed, or is cordoned off."""
        if self._granted and not self._closing_logs:
            self._beat(now_ms)

    def _link_lost(self, peer: Peer, channel: str, reason: str, now_ms: int) -> None:
        """Reports to the controller after a lost connection to it, which might take this node for dead."""
        if channel == self._channel.NAME and peer == self._channel.controller:
            self.controller_lost(now_ms)

    def controller_lost(self, now_ms: int) -> None:
        """Sends a heartbeat, as the connection to the controller broke or there is another controller.

        If this node is stopping and no other broker is active, it leaves at once: there may be no controller any more.
        """
        if not self._granted or self._closing_logs:
            return
        active = (each.id for each in self._state.image.brokers.values() if each.active)
        if self._state.stopping and all(broker_id == self._state.node_id for broker_id in active):
            self._left(now_ms)
        else:
            self._beat(now_ms)

    def _beat(self, now_ms: int) -> None:
        """Sends a heartbeat now, instead of one under way, which may be outdated."""
        self._silence()
        self._heartbeat = self._channel.to_controller(
            self._heartbeat_request,
            self._heartbeat_answered,
            now_ms,
            timeout_ms=SHUTDOWN_HEARTBEAT_TIMEOUT_MS
            if self._state.stopping
            else self._state.settings.broker_session_timeout_ms,
        )

    def _silence(self) -> None:
        if self._heartbeat_due is not None:
            self._scheduler.timers.cancel(self._heartbeat_due)
            self._heartbeat_due = None
        if self._heartbeat is not None:
            self._channel.cancel(self._heartbeat)
            self._heartbeat = None

    def _cordoned(self) -> list[UUID] | None:
        """The log directories that get no new replicas; None while the cluster cannot record them."""
        if self._state.image.metadata_version < CORDONS_FROM_LEVEL:
            return None
        return [found.id for found in self._directories if found.id is not None and self._logs.is_cordoned(found)]

    def _heartbeat_request(self) -> BrokerHeartbeatRequest:
        offline = [found.id for found in self._directories if found.error is not None and found.id is not None]
        return BrokerHeartbeatRequest(
            broker_id=self._state.node_id,
            broker_epoch=self._state.broker_epoch,
            current_metadata_offset=self._state.image.offset,
            want_fence=not self._has_replicas,
            want_shut_down=self._state.stopping,
            offline_log_dirs=offline,
            cordoned_log_dirs=self._cordoned(),
        )

    def _heartbeat_answered(self, answer: Message | None, now_ms: int) -> None:
        self._heartbeat = None
        if self._closing_logs:
            return
        interval_ms = self._state.settings.broker_heartbeat_interval_ms
        granted = isinstance(answer, BrokerHeartbeatResponse) and not answer.error_code
        if self._state.stopping:
            may_go = answer is None or (isinstance(answer, BrokerHeartbeatResponse) and answer.should_shut_down)
            self._shutdown_answered(may_go, now_ms)
        elif not granted or (isinstance(answer, BrokerHeartbeatResponse) and answer.is_fenced and self._has_replicas):
            self._beat_at(now_ms + min(RETRY_MS, interval_ms))
        elif not self._controller().active:
            self._beat_at(now_ms + interval_ms)

    def _shutdown_answered(self, may_go: bool, now_ms: int) -> None:
        """The first such heartbeat gives up the leaderships; the next ones ask whether all brokers know of that."""
        self._shutdown_heartbeats += 1
        if may_go:
            self._may_leave(now_ms)
        elif self._shutdown_heartbeats == 1:
            self._beat(now_ms)
        else:
            self._beat_at(now_ms + SHUTDOWN_HEARTBEAT_INTERVAL_MS)

    def _beat_at(self, when_ms: int) -> None:
        self._heartbeat_due = self._scheduler.timers.at(when_ms, self._beat_again, duty=True)

    def _beat_again(self, now_ms: int) -> None:
        self._heartbeat_due = None
        if not self._closing_logs:
            self._beat(now_ms)

    # The controller's registration

    def _register_controller(self, now_ms: int) -> None:
        """Registers this node's controller until the image contains this registration."""
        own = self._state.image.controllers.get(self._state.node_id)
        self._registered = self._registered or (own is not None and own.incarnation_id == self.incarnation_id)
        if self._registered or self._registering or not self._state.image.metadata_version:
            return
        assert self.controller_endpoints is not None
        self._registering = True

        def again(at_ms: int) -> None:
            self._registering = False
            self.published(at_ms)

        def answered(answer: Message | None, at_ms: int) -> None:
            if isinstance(answer, ControllerRegistrationResponse) and not answer.error_code:
                self._registered = True
            else:
                self._scheduler.timers.at(at_ms + RETRY_MS, again, duty=True)

        self._channel.to_controller(self._controller_registration(), answered, now_ms)

    def _controller_registration(self) -> ControllerRegistrationRequest:
        from penstock.metadata.features import REGISTERED_FEATURES

        assert self.controller_endpoints is not None
        return ControllerRegistrationRequest(
            controller_id=self._state.node_id,
            incarnation_id=self.incarnation_id,
            zk_migration_ready=False,
            listeners=[
                controller_registration_request.Listener(
                    name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol
                )
                for each in self.controller_endpoints
            ],
            features=[
                controller_registration_request.Feature(
                    name=name, min_supported_version=lowest, max_supported_version=highest
                )
                for name, (lowest, highest) in REGISTERED_FEATURES.items()
            ],
        )

    # The clean stop

    def shutdown(self, now_ms: int) -> None:
        """Begins to stop: gives up leaderships first, while clients are still told who leads."""
        if self._state.stopping:
            return
        was_ready = self._state.ready
        self._state.stopping = True
        self._state.ready = False
        granting = self._channel.controller is not None and not self._stuck
        if was_ready and self.registration is not None and granting:
            self._beat(now_ms)
            self._scheduler.timers.at(now_ms + LEAVE_TIMEOUT_MS, self._left, duty=True)
        else:
            self._left(now_ms)

    def _may_leave(self, now_ms: int) -> None:
        """The controller lets us go. If it is this node, it lets other stopping brokers go first.

        They would have to wait for a new controller, and nothing guarantees that one could still be reached.
        """
        others = self._controller().state.image.brokers.values() if self._controller().active else ()
        if any(each.in_controlled_shutdown and not each.fenced and each.id != self._state.node_id for each in others):
            if not self._lets_others_go:
                self._lets_others_go = True
                self._scheduler.timers.at(now_ms + SHUTDOWN_HEARTBEAT_TIMEOUT_MS, self._left, duty=True)
        else:
            self._left(now_ms)

    def metadata_log_failed(self, now_ms: int) -> None:
        """Ends a clean stop without the controller, since the metadata log cannot be followed any more."""
        if self._state.stopping:
            self._left(now_ms)

    def metadata_log_has_no_room(self, now_ms: int) -> None:
        """Ends a clean stop without the controller if that is this node alone, and can decide nothing."""
        if self._state.stopping and self._stuck:
            self._left(now_ms)

    @property
    def _stuck(self) -> bool:
        """Whether nobody can decide anything before this node has room for it."""
        quorum = self._quorum()
        return quorum.waits_for_room and quorum.is_only_voter

    def _left(self, now_ms: int) -> None:
        """Closes connections and logs: the controller knows that this node stops, or is not waited for any more."""
        if self._closing_logs:
            return
        self._closing_logs = True
        self._close_connections("the broker is stopping")
        self._replication.publishing.finish_deletions()
        self._replication.followers.stop(now_ms)
        self._logs.stop(self._state.broker_epoch if self._granted else -1, now_ms)
        self.proceed(now_ms)

    def proceed(self, now_ms: int) -> None:
        """Continues the stop when something has ended: closes the metadata log once all other logs are closed."""
        if self._closing_logs and not self._closing_metadata and self._logs.finish_stop():
            self._closing_metadata = True
            self._quorum().shutdown(self._closed, now_ms)

    def _closed(self, now_ms: int) -> None:
        self._outgoing.stop()
        self._state.stopped = True
