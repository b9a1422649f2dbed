"""One node, broker and controller in one, as a state machine: events in, effects out.

The shell (server) or the simulator calls `start`, `connected`, `received`, `disconnected`, `operation_completed`,
`operation_failed`, `operation_broke` and `tick`, and after one or several of them `take_effects`, whose effects it
carries out in order. The appends of all events between two calls of `take_effects` go out as one write a log: so a
shell gives all frames that one turn of its loop has received and then takes the effects. Nothing here waits, reads a
clock or opens a file (but `start`, which reads the small files that say who we are).

Handlers get the broker as `node`. What they use of it: `state` (settings and the committed metadata), `scheduler`
(time, timers, long work), `quorum`, `controller`, `coordinators`, `logs`, `replicas` (the partitions this node leads),
`journal`, `answer`, `partition_error`, and `dispatcher.later` around whatever goes on with a request later. The parts
of the node take what they use, never the broker.

How a node comes up: the log directories say who they are; the metadata log is read; the controller becomes active;
the broker registers, makes the replicas that it is assigned, is unfenced, and leads. `ready` is true from then on.
How it goes down: leaderships are given up, connections closed, logs flushed, closed and marked, the metadata log
closed last.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

from penstock.config.server import Settings
from penstock.errors import ErrorCode, PenstockError, RequestError, StorageError
from penstock.log.directory import LogDirectory
from penstock.log.disk import Operation
from penstock.log.events import LogEvent
from penstock.metadata.bootstrap import read_bootstrap
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.image import Endpoint, MetadataImage
from penstock.node.audit import Audit
from penstock.node.bugs import Bugs
from penstock.node.calls import Calls
from penstock.node.channel import Channel
from penstock.node.connection import Connection
from penstock.node.controller import ControllerNode
from penstock.node.coordinator_host import CoordinatorHost
from penstock.node.coordinator_list import Coordinators
from penstock.node.dispatcher import Dispatcher
from penstock.node.duties import Duty
from penstock.node.effects import Effect, Run
from penstock.node.exit import Throttle
from penstock.node.fetches import Fetches
from penstock.node.followers import REPLICATION_CHANNEL
from penstock.node.gate import AuditedGate, Gate
from penstock.node.journal import Journal
from penstock.node.lifecycle import Lifecycle
from penstock.node.loopback import Loopback
from penstock.node.metrics import Sample, TopicMetrics, request_samples
from penstock.node.outgoing import NotServed, Outgoing, Peer
from penstock.node.producer_ids import ProducerIds
from penstock.node.purgatory import Purgatory
from penstock.node.quorum import Quorum
from penstock.node.quorums import Quorums
from penstock.node.replication import Replication
from penstock.node.request import Handler, Kept, Request, Served
from penstock.node.samples import metadata_samples, own_samples, partition_samples, quorum_samples, replica_samples
from penstock.node.scheduler import Scheduler
from penstock.node.state import NodeState
from penstock.node.turns import CountedWork
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.fetch_request import FetchRequest
from penstock.raft.effects import Target
from penstock.raft.messages import unsupported
from penstock.raft.voters import VoterEndpoint
from penstock.records.wall import WallTime

logger = logging.getLogger(__name__)

RAFT_CHANNEL, FETCH_CHANNEL = "raft", "raft fetch"
"""Channels of the quorum: a vote must not wait behind a fetch that waits for records."""


class Broker:
    """See the module's head. `now_ms` is the time that timers go by, never going back; `wall` what is stamped.

    Args:
        settings: the node's settings. directories: one for each entry of `settings.directories`, in that order.
        handlers: those of the APIs that are served, as `node.handlers.registry` finds them.
        metadata_directory: the one at `settings.metadata_directory`; one of `directories` unless metadata.log.dir is
        elsewhere. random: all randomness of the node. report: gets what a person should know of the log directories;
        the shell logs it. bug: gets what should never happen, with the exception; by default it is logged. The
        simulator raises. work_ms: a clock, in milliseconds, of the time that requests take; by default one that counts
        what is done. wall: the wall time, which the shell keeps. throttle: says how long clients are to wait; by
        default not at all. audit: is told of all requests; by default nobody is.

    Attributes:
        now_ms: the time of the event being handled.
        ready: the node leads its partitions and serves.
        stopped: a clean stop is complete.
        failure: why the node cannot go on; None while it can. The shell ends the process then.
    """

    def __init__(
        self,
        settings: Settings,
        directories: Sequence[LogDirectory],
        handlers: Mapping[ApiKey, Handler[Broker]],
        *,
        random: Random,
        metadata_directory: LogDirectory | None = None,
        report: Callable[[LogEvent], None] = lambda event: None,
        bug: Callable[[str, Exception], None] | None = None,
        work_ms: Callable[[], float] | None = None,
        wall: WallTime | None = None,
        throttle: Throttle | None = None,
        audit: Audit | None = None,
    ) -> None:
        metadata_directory = metadata_directory or next(
            directory for directory in directories if directory.path == settings.metadata_directory
        )
        state = self.state = NodeState(settings, metadata_directory)
        scheduler = self.scheduler = Scheduler(random, wall or WallTime(), bug)
        self.purgatory = Purgatory(scheduler.timers)
        self.calls = Calls(
            state,
            scheduler,
            Loopback(self, state, scheduler),
            link_lost=self._link_lost,
            process_gone=self._process_gone,
        )
        outgoing = self.calls.outgoing
        self.channel = Channel(
            state.node_id,
            outgoing,
            scheduler.timers,
            scheduler.bugs,
            request_timeout_ms=settings.request_timeout_ms,
        )
        self.gate = Gate() if audit is None else AuditedGate(audit)
        self.quorums = Quorums()
        self.connections: dict[int, Connection] = {}
        self.replication = Replication(
            state,
            scheduler,
            outgoing,
            self.channel,
            directories,
            report=report,
            low_watermark_moved=self.purgatory.low_watermark_moved,
            directory_lost=self.directory_lost,
        )
        self.logs = self.replication.logs
        self.replicas = self.replication.replicas
        self.quorum: Quorum
        self.controller: ControllerNode
        self.journal = Journal(state, scheduler, self.replicas, lambda: self.controller.active)
        self.dispatcher = Dispatcher(
            self,
            scheduler,
            Served(self, handlers.values(), settings.controller_listener_names),
            self.gate,
            self.channel,
            purgatory=self.purgatory,
            journal=self.journal,
            read_failed=self.logs.read_failed,
            work_ms=work_ms or CountedWork(),
            request_timeout_ms=settings.request_timeout_ms,
            throttle=throttle,
            audit=audit,
        )
        self.topic_metrics = TopicMetrics()
        self.fetches = Fetches(
            state,
            scheduler,
            self.dispatcher,
            self.gate,
            self.replicas,
            throttles=self.replication.throttles,
            topic_metrics=self.topic_metrics,
            partition_error=self.partition_error,
        )
        self.lifecycle = Lifecycle(
            state,
            scheduler,
            self.replication,
            self.channel,
            outgoing,
            quorum=lambda: self.quorum,
            controller=lambda: self.controller,
            close_connections=self._close_connections,
        )
        self.producer_ids = ProducerIds(state, scheduler, self.channel, self.purgatory)
        self.coordinators = Coordinators(
            CoordinatorHost(
                state=state,
                scheduler=scheduler,
                logs=self.logs,
                replicas=self.replicas,
                channel=self.channel,
                outgoing=outgoing,
                journal=self.journal,
                controller=lambda: self.controller,
            )
        )

    # Life

    @property
    def ready(self) -> bool:
        return self.state.ready

    @property
    def stopped(self) -> bool:
        return self.state.stopped

    @property
    def cluster_id(self) -> str:
        """The id of the cluster, from meta.properties."""
        return self.logs.cluster_id

    @property
    def settings(self) -> Settings:
        return self.state.settings

    @property
    def node_id(self) -> int:
        return self.state.node_id

    @property
    def image(self) -> MetadataImage:
        """The committed metadata."""
        return self.state.image

    @property
    def now_ms(self) -> int:
        """The time of the event being handled."""
        return self.scheduler.now_ms

    @property
    def bugs(self) -> Bugs:
        return self.scheduler.bugs

    @property
    def failure(self) -> Exception | None:
        return self.state.failure

    @property
    def outgoing(self) -> Outgoing:
        """Calls to other nodes."""
        return self.calls.outgoing

    def bug(self, place: str, what: str, error: Exception) -> None:
        self.scheduler.bug(place, what, error)

    def start(
        self, endpoints: Sequence[Endpoint], now_ms: int, *, controller_endpoints: Sequence[Endpoint] | None = None
    ) -> None:
        """Begins to boot. Reads, blocking, what the directories say. `ready` is true when the node serves.

        Args:
            endpoints: the addresses to register, as clients reach them; known once the listeners are bound.
            controller_endpoints: those of this node's controller, as other nodes reach it; None: as in the settings.

        Raises ConfigError or StorageError, in one line, for directories that cannot be used.
        """
        self.scheduler.now_ms = now_ms
        directory = self.state.metadata_directory
        self.logs.start(now_ms, metadata_directory=directory)
        if directory.error is not None:
            raise StorageError(f"the metadata log directory {directory.path} is not readable: {directory.error}")
        directory_id = directory.id
        assert directory_id is not None, "an identified directory has an id"
        disk = directory.blocking_disk
        self.quorum = Quorum(
            self.state.settings,
            disk,
            self,
            cluster_id=self.cluster_id,
            directory_id=directory_id,
            random=self.scheduler.random,
            wall=self.scheduler.wall,
        )
        self.quorums.add(self.quorum)
        controller = self.controller = ControllerNode(
            self.state.settings,
            self.quorum,
            self,
            bootstrap=read_bootstrap(disk),
            random=self.scheduler.random,
            own_broker_epoch=lambda: self.state.broker_epoch,
        )
        if self.state.settings.is_controller and controller_endpoints is None:
            own = self.state.settings.controller_endpoints
            controller_endpoints = [Endpoint(each.listener, each.host, each.port) for each in own]
        self.lifecycle.identify(endpoints, controller_endpoints)
        found = [VoterEndpoint(each.name, each.host, each.port) for each in controller_endpoints or ()]
        bugs = self.scheduler.bugs
        self.scheduler.duties += (
            Duty("the logs", self.logs.tick, self.logs.next_deadline_ms, bugs),
            Duty("the quorum", self.quorum.tick, self.quorum.next_deadline_ms, bugs, self.metadata_log_failed),
            Duty("the controller", controller.tick, lambda: controller.next_deadline_ms(self.scheduler.now_ms), bugs),
            *(
                Duty(f"the {each.name} coordinator", each.runtime.tick, each.runtime.next_deadline_ms, bugs)
                for each in self.coordinators.all
            ),
        )
        self.quorum.start(now_ms, controller, found)
        self.lifecycle.start(now_ms)

    def shutdown(self, now_ms: int) -> None:
        """Begins a clean stop: no new requests, logs flushed and marked. `stopped` is true when it is done."""
        self.scheduler.now_ms = now_ms
        self.lifecycle.shutdown(now_ms)

    # Events

    def connected(self, connection: int, listener: str, peer: str, now_ms: int) -> None:
        """A client connected. `connection` is a number the shell never uses again, `listener` a listener's name."""
        assert connection not in self.connections
        settings = self.state.settings
        self.connections[connection] = Connection(
            connection,
            listener,
            peer,
            max_in_flight=settings.penstock_connection_max_in_flight,
            max_in_flight_bytes=settings.penstock_connection_max_in_flight_bytes,
        )

    def received(self, connection: int, frame: memoryview, now_ms: int) -> None:
        """One frame, without its length prefix, of a writable buffer. Views of it are kept while its bytes are needed.

        A frame of a connection that the node has closed is ignored.
        """
        self.scheduler.now_ms = now_ms
        found = self.connections.get(connection)
        if found is not None:
            self.dispatcher.received(found, frame, now_ms)

    def disconnected(self, connection: int, now_ms: int) -> None:
        """The connection is gone. What has come on it is executed; then its parked requests are dropped."""
        found = self.connections.get(connection)
        if found is not None:
            self.dispatcher.turns.leave(found)
            self.scheduler.guarded("connection", "the loss of it", self.controller.connection_lost, connection, now_ms)

    def link_up(self, link: int, now_ms: int) -> None:
        """A connection that `Dial` asked for has been made."""
        self.scheduler.now_ms = now_ms
        self.scheduler.guarded("call", "a connection to another node", self.calls.outgoing.link_up, link, now_ms)

    def link_received(self, link: int, frame: memoryview, now_ms: int) -> None:
        """An answer of another node, without its length prefix. Views of it are kept while its bytes are needed."""
        self.scheduler.now_ms = now_ms
        self.scheduler.guarded(
            "call", "an answer of another node", self.calls.outgoing.link_received, link, frame, now_ms
        )

    def link_lost(self, link: int, reason: str, now_ms: int) -> None:
        """A connection to another node broke, or could not be made; `reason` is for people."""
        self.scheduler.now_ms = now_ms
        self.scheduler.guarded(
            "call", "a lost connection to another node", self.calls.outgoing.link_lost, link, reason, now_ms
        )

    def operation_completed(self, operation: Operation, result: Any, now_ms: int) -> None:
        """An operation of `Run` has ended well."""
        self._operation_ended(operation, operation.owner.operation_completed, result, now_ms)

    def operation_failed(self, operation: Operation, error: OSError, now_ms: int) -> None:
        """An operation of `Run` has raised `error`."""
        self._operation_ended(operation, operation.owner.operation_failed, error, now_ms)

    def operation_broke(self, operation: Operation, error: Exception, now_ms: int) -> None:
        """An operation of `Run` has raised what no disk raises: a bug, which says nothing of the directory."""
        self._operation_ended(operation, self._operation_broke, error, now_ms)

    def _operation_ended(self, operation: Operation, tell: Callable[..., None], outcome: Any, now_ms: int) -> None:
        self.scheduler.now_ms = now_ms
        try:
            tell(operation, outcome, now_ms)
        except Exception as error:
            self._operation_broke(operation, error, now_ms)
        if self.state.stopping:
            self._proceed_with_stop(now_ms)

    def _operation_broke(self, operation: Operation, error: Exception, now_ms: int) -> None:
        """What an operation was for ends: a request, a replica, a move; of the metadata log, the node."""
        what = f"{type(operation).__name__} of {operation.order}"
        self.scheduler.guarded("operation", what, operation.owner.operation_broke, operation, error, now_ms)
        self.scheduler.bug("operation", what, error)

    def _proceed_with_stop(self, now_ms: int) -> None:
        self.scheduler.guarded("duty", "a clean stop", self.lifecycle.proceed, now_ms)

    def tick(self, now_ms: int) -> None:
        """Time has come to `next_deadline_ms`: timers fire, and long work goes on for one step of it."""
        scheduler = self.scheduler
        scheduler.now_ms = now_ms
        scheduler.timers.advance(now_ms)
        for duty in scheduler.duties:
            duty.tick(now_ms)
        scheduler.guarded("request", "the turns of connections", self.dispatcher.turns.serve)
        if scheduler.working:
            scheduler.guarded("work", "long work", scheduler.step)
        if self.state.stopping:
            self._proceed_with_stop(now_ms)

    def next_deadline_ms(self) -> int | None:
        """When `tick` is wanted; now when long work waits for its next step. None: only events can wake the node."""
        scheduler, calls = self.scheduler, self.calls
        if scheduler.working or self.dispatcher.turns.waiting or calls.outgoing.pending or calls.loopback.pending:
            return scheduler.now_ms
        soonest = scheduler.timers.next_deadline_ms()
        for duty in scheduler.duties:
            deadline = duty.next_deadline_ms()
            if deadline is not None and (soonest is None or deadline < soonest):
                soonest = deadline
        return soonest

    def take_effects(self) -> list[Effect]:
        """What to do now, in order; empties it. Call after each event, or once after all events of a loop turn."""
        scheduler = self.scheduler
        now_ms = scheduler.now_ms
        if self.fetches.woken:
            self.fetches.serve_woken(now_ms)
        if self.replication.followers.due:
            scheduler.guarded("call", "fetches from leaders", self.replication.followers.send_due, now_ms)
        calls = self.calls
        if calls.outgoing.pending or calls.loopback.pending:
            calls.proceed(now_ms)
        for coordinator in self.coordinators.all:
            if coordinator.runtime.has_open_batches:
                coordinator.runtime.flush(now_ms)
        if self.dispatcher.turns.spent_ms:
            self.dispatcher.turns.turn_ended()
        effects = scheduler.effects
        if self.logs.has_operations:
            effects += map(Run, self.logs.take_operations())
        if self.quorum.has_operations:
            effects += map(Run, self.quorum.take_operations(now_ms))
        scheduler.effects = []
        return effects

    # For handlers and the parts of the node

    def answer(self, request: Request[Any], message: Message | Kept | None, now_ms: int) -> None:
        """Answers a request for which the handler returned LATER. None: no response frame."""
        self.dispatcher.exit.answer(request, message, now_ms)

    def close(self, connection: Connection, reason: str) -> None:
        """Closes a connection after what has been answered on it; drops its other requests."""
        if self.connections.pop(connection.id, None) is not None:
            self.controller.connection_closed(connection.id)
            self.abandon(connection)
            connection.close(reason, self.scheduler.effects)

    def _close_connections(self, reason: str) -> None:
        for connection in list(self.connections.values()):
            self.close(connection, reason)

    def partition_error(self, what: str, topic: str, index: int, error: Exception, now_ms: int) -> ErrorCode:
        """The code for one partition of a request whose `what` raised `error`; the request's others go on.

        Damage and bugs are logged, seldom. An error of the file system takes the partition's directory offline.
        """
        name = f"{what} of {topic}-{index}"
        if isinstance(error, StorageError | RequestError):
            return error.code
        if isinstance(error, PenstockError):
            self.scheduler.bugs.damage(name, error)
            return error.code
        if isinstance(error, OSError):
            self.logs.read_failed(self.logs.directory_of(topic, index).index, error, now_ms)
            return ErrorCode.KAFKA_STORAGE_ERROR
        self.scheduler.bug("request", name, error)
        return ErrorCode.UNKNOWN_SERVER_ERROR

    def metrics(self) -> Iterator[Sample]:
        """All samples, with Kafka's names."""
        return (sample for sample in self.metrics_in_steps() if sample is not None)

    def metrics_in_steps(self) -> Iterator[Sample | None]:
        """The same for a loop that has others to serve: it may turn to them before each `next`, and so the node may
        change. None where much was looked at and nothing is to be told yet. Those of one name follow each other.
        """
        yield from self.topic_metrics.samples()
        yield from request_samples(self.dispatcher.exit.counters.values(), self.scheduler.now_ms)
        yield from metadata_samples(
            self.state, is_controller=self.controller.active, unclean_elections=self.journal.unclean_elections
        )
        yield from replica_samples(self.state, self.replication)
        yield from partition_samples(self.logs)
        yield from quorum_samples(self.quorum, self.image)
        for coordinator in self.coordinators.all:
            yield from coordinator.samples()
        yield from own_samples(
            self.fetches.sessions,
            self.calls.outgoing,
            connections=sum(1 for number in self.connections if number > 0),
            parked=len(self.purgatory) + len(self.fetches.waiting),
            cold_reads=self.dispatcher.cold_reads,
        )
        yield from self.scheduler.bugs.samples()

    # QuorumObserver, ControllerObserver, and what the log directories say

    def image_published(self, old: MetadataImage, new: MetadataImage, delta: MetadataDelta, now_ms: int) -> None:
        self.state.image = new
        self.scheduler.guarded("metadata", "what the log says of a new image", self.journal.published, old, delta)
        publish = self.replication.publishing.publish
        self.scheduler.guarded("metadata", "a new image", publish, old, new, delta, now_ms)
        self.scheduler.guarded("metadata", "what requests know of the metadata", self._tell_requests, delta, now_ms)
        self.coordinators.published(delta, now_ms)
        self.scheduler.guarded("metadata", "this node's own registration", self.lifecycle.published, now_ms)

    def _tell_requests(self, delta: MetadataDelta, now_ms: int) -> None:
        for topic in delta.deleted_topics.values():
            self.topic_metrics.forget(topic.name)
        self.fetches.settings_changed()
        if any(changed.partitions for changed in delta.topics.values()):
            self.fetches.answer_followers(now_ms)

    def controller_active(self, now_ms: int) -> None:
        own = self.state.settings.controller_endpoints[0]
        self._controller_changed(Peer(self.state.node_id, own.host, own.port, own.listener), now_ms)

    def leader_changed(self, leader: Target | None, now_ms: int) -> None:
        peer = None if leader is None else Peer(leader.node_id, leader.host, leader.port, leader.listener)
        self._controller_changed(peer, now_ms)

    def _controller_changed(self, peer: Peer | None, now_ms: int) -> None:
        if peer == self.channel.controller:
            return
        self.journal.controller_changed(None if peer is None else peer.node_id)
        self.scheduler.guarded("metadata", "calls to the controller", self.channel.controller_changed, peer, now_ms)
        if peer is not None:
            self.scheduler.guarded("metadata", "this node's registration", self.lifecycle.controller_lost, now_ms)
            self.dispatcher.controller_known(now_ms)

    def broker_suspected(self, broker_id: int, broker_epoch: int, now_ms: int) -> None:
        """A broker whose process is dead is fenced at once, a live one keeps its grace."""
        if broker_id != self.state.node_id:
            self.calls.liveness.check(broker_id, broker_epoch, now_ms)

    def _process_gone(self, broker_id: int, broker_epoch: int, now_ms: int) -> None:
        self.controller.process_gone(broker_id, broker_epoch, now_ms)

    def _link_lost(self, peer: Peer, channel: str, reason: str, now_ms: int) -> None:
        """The controller takes a lost connection for the death of a broker, unless it soon hears of it again."""
        if channel == Channel.NAME and peer == self.channel.controller:
            self.lifecycle.controller_lost(now_ms)
        elif channel == FETCH_CHANNEL and peer.node_id == self.quorum.leader_id:
            self.quorum.leader_link_lost(now_ms)
        elif channel.startswith(REPLICATION_CHANNEL):
            self.calls.suspects.link_lost(peer, channel, now_ms)

    def call_quorum(
        self,
        target: Target,
        request: Message,
        timeout_ms: int,
        done: Callable[[Message | None, int], None],
        now_ms: int,
    ) -> None:
        channel = FETCH_CHANNEL if isinstance(request, FetchRequest) else RAFT_CHANNEL
        peer = Peer(target.node_id, target.host, target.port, target.listener)

        def ended(answer: Message | None, reason: str | None, at_ms: int) -> None:
            if isinstance(reason, NotServed):
                answer = unsupported(request)
            done(answer, at_ms)
            of_leader = channel == FETCH_CHANNEL and peer.node_id == self.quorum.leader_id
            if of_leader and self.calls.outgoing.is_gone(peer, reason):
                self.quorum.leader_gone(at_ms)

        self.calls.outgoing.call(peer, request, timeout_ms=timeout_ms, done=ended, now_ms=now_ms, channel=channel)

    def metadata_log_failed(self, error: Exception, now_ms: int) -> None:
        self.state.fail(error)
        self.lifecycle.metadata_log_failed(now_ms)

    def directory_lost(self, index: int, error: OSError, now_ms: int) -> None:
        """A log directory is offline. Without the metadata log's, or without any, the node ends."""
        self.replication.moves.directory_failed(index, self.scheduler.now_ms)
        if self.logs.table.directories[index] is self.state.metadata_directory or not self.logs.table.online:
            self.state.fail(error)
        else:
            self.lifecycle.directories_changed(self.scheduler.now_ms)

    def abandon(self, connection: Connection) -> None:
        """Executes nothing more of a connection; appends on their way go on."""
        self.connections.pop(connection.id, None)
        connection.closed = True
        connection.waiting.clear()
        self.dispatcher.turns.forget(connection)
        for request in connection.in_flight:
            if not request.done and request.abandoned is not None:
                self.scheduler.guarded("request", "a request that nobody waits for any more", request.abandoned)
        connection.in_flight.clear()
