"""One node, broker and controller in one, as a state machine: events in, effects out.

The shell (server) or the simulator calls `start`, `connected`, `received`, `disconnected`, `operation_completed`,
`operation_failed`, `operation_broke` and `tick`, and after one or several of them `take_effects`, whose effects it
carries out in order. The appends of all events between two calls of `take_effects` go out as one write a log: so a
shell gives all frames that one turn of its loop has received and then takes the effects. Nothing here waits, reads a
clock or opens a file (but `start`, which reads the small files that say who we are).

Handlers get the broker as `node`. What they use of it: `settings`, `image` (the committed metadata), `quorum`,
`controller`, `coordinators`, `logs`, `replicas` (the partitions this node leads), `timers`, `wall`, `random`,
`journal`, `answer`, `partition_error`, and `dispatcher.later` around whatever goes on with a request later.

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
from penstock.config.topic import TopicConfig
from penstock.errors import ErrorCode, PenstockError, RequestError, StorageError
from penstock.log.directory import LogDirectory
from penstock.log.disk import Operation
from penstock.log.events import LogEvent
from penstock.log.manager import LogManager, NotOpen
from penstock.metadata.bootstrap import read_bootstrap
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.image import Endpoint, MetadataImage
from penstock.node.audit import Audit
from penstock.node.bugs import Bugs
from penstock.node.channel import Channel
from penstock.node.connection import Connection
from penstock.node.controller import ControllerNode
from penstock.node.coordinator_list import Coordinators
from penstock.node.dispatcher import Dispatcher
from penstock.node.duties import Duty
from penstock.node.effects import Effect, Run
from penstock.node.exit import Throttle
from penstock.node.fetches import Fetches
from penstock.node.followers import REPLICATION_CHANNEL, Followers
from penstock.node.gate import AuditedGate, Gate
from penstock.node.isr_changes import IsrChanges
from penstock.node.journal import Journal
from penstock.node.lifecycle import Lifecycle
from penstock.node.liveness import Liveness
from penstock.node.loopback import Loopback
from penstock.node.metrics import Sample, TopicMetrics
from penstock.node.moves import Moves
from penstock.node.outgoing import NotServed, Outgoing, Peer
from penstock.node.producer_ids import ProducerIds
from penstock.node.publishing import Publishing
from penstock.node.purgatory import Purgatory
from penstock.node.quorum import Quorum
from penstock.node.quorums import Quorums
from penstock.node.request import Handler, Kept, Request, Served
from penstock.node.samples import samples_of
from penstock.node.scheduler import Scheduler
from penstock.node.state import NodeState
from penstock.node.suspects import Suspects
from penstock.node.throttles import ReplicationThrottles
from penstock.node.timers import TimerWheel
from penstock.node.turns import CountedWork
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.fetch_request import FetchRequest
from penstock.raft.effects import Target
from penstock.raft.messages import unsupported
from penstock.raft.voters import VoterEndpoint
from penstock.records.wall import WallTime
from penstock.replication.replicas import Replicas

logger = logging.getLogger(__name__)

RAFT_CHANNEL, FETCH_CHANNEL = "raft", "raft fetch"
"""Channels of the quorum: a vote must not wait behind a fetch that waits for records."""
OWN_CALL_ROUNDS_MAX = 16
"""Steps of calls to ourselves within one turn of the loop; a call and its answer are two."""


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
        state = self.state = NodeState(settings)
        scheduler = self.scheduler = Scheduler(random, wall or WallTime(), bug)
        self.directories = directories
        self.metadata_directory = metadata_directory or next(
            directory for directory in directories if directory.path == settings.metadata_directory
        )
        self.purgatory = Purgatory(scheduler.timers)
        self.loopback = Loopback(self, state, scheduler)
        self.outgoing = Outgoing(
            state.node_id,
            timers=scheduler.timers,
            random=random,
            report=scheduler.bugs.of("call"),
            emit=scheduler.emit,
            emit_own=self.loopback.carry_out,
            idle_ms=settings.connections_max_idle_ms,
            setup_timeout_ms=settings.socket_connection_setup_timeout_ms,
            setup_timeout_max_ms=settings.socket_connection_setup_timeout_max_ms,
        )
        self.outgoing.on_link_lost.append(self._link_lost)
        self.suspects = Suspects(self.outgoing)
        self.channel = Channel(
            self.node_id,
            self.outgoing,
            self.timers,
            self.bugs,
            request_timeout_ms=settings.request_timeout_ms,
        )
        self.gate = Gate() if audit is None else AuditedGate(audit)
        self.quorums = Quorums()
        self.connections: dict[int, Connection] = {}
        lag_time_max_ms = settings.replica_lag_time_max_ms
        self.isr_changes = IsrChanges(
            state.node_id, lambda: state.broker_epoch, self.channel, scheduler.timers, lag_time_max_ms
        )
        self.replicas: Replicas = Replicas(
            state.node_id,
            lambda: self.logs,
            self.directory_lost,
            self.purgatory.low_watermark_moved,
            self.isr_changes,
            followers=lambda: self.followers,
            broker_epoch=lambda: state.broker_epoch,
            lag_time_max_ms=lag_time_max_ms,
        )
        self.throttles = ReplicationThrottles(settings)
        self.followers: Followers = Followers(self, self.replicas)
        self.logs: LogManager = LogManager(
            settings,
            directories,
            topic_config=state.topic_config,
            random=random,
            report=report,
            listener=self.replicas,
            wall=scheduler.wall,
            bug=scheduler.bugs.of("operation"),
        )
        self.quorum: Quorum
        self.controller: ControllerNode
        self.moves = Moves(self)
        self.journal = Journal(self)
        self.dispatcher = Dispatcher(
            self,
            scheduler,
            Served(self, handlers.values(), settings.controller_listener_names),
            self.gate,
            self.channel,
            purgatory=self.purgatory,
            journal=self.journal,
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
            throttles=self.throttles,
            topic_metrics=self.topic_metrics,
            partition_error=self.partition_error,
        )
        self.publishing = Publishing(self)
        self.lifecycle = Lifecycle(self)
        self.producer_ids = ProducerIds(self)
        self.coordinators = Coordinators(self)
        self._duties: Sequence[Duty] = ()

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
    def wall(self) -> WallTime:
        return self.scheduler.wall

    @property
    def timers(self) -> TimerWheel:
        return self.scheduler.timers

    @property
    def bugs(self) -> Bugs:
        return self.scheduler.bugs

    @property
    def effects(self) -> list[Effect]:
        return self.scheduler.effects

    @property
    def failure(self) -> Exception | None:
        return self.state.failure

    def do(self, work: Iterator[None]) -> None:
        self.scheduler.do(work)

    def bug(self, place: str, what: str, error: Exception) -> None:
        self.scheduler.bug(place, what, error)

    def guarded(self, place: str, what: str, work: Callable[..., object], *args: Any) -> None:
        self.scheduler.guarded(place, what, work, *args)

    def when_open(self, missing: NotOpen, then: Callable[[int], None]) -> None:
        self.scheduler.when_open(missing, then)

    def topic_config(self, name: str) -> TopicConfig:
        return self.state.topic_config(name)

    def rack_of(self, broker_id: int) -> str | None:
        return self.state.rack_of(broker_id)

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
        directory = self.metadata_directory
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
        self._liveness = Liveness(self.outgoing, self.scheduler.timers, self.state.peer, controller.process_gone)
        if self.state.settings.is_controller and controller_endpoints is None:
            own = self.state.settings.controller_endpoints
            controller_endpoints = [Endpoint(each.listener, each.host, each.port) for each in own]
        self.lifecycle.identify(endpoints, controller_endpoints)
        found = [VoterEndpoint(each.name, each.host, each.port) for each in controller_endpoints or ()]
        self._duties = (
            Duty("the logs", self.logs.tick, self.logs.next_deadline_ms, self.scheduler.bugs),
            Duty(
                "the quorum",
                self.quorum.tick,
                self.quorum.next_deadline_ms,
                self.scheduler.bugs,
                self.metadata_log_failed,
            ),
            Duty(
                "the controller",
                controller.tick,
                lambda: controller.next_deadline_ms(self.scheduler.now_ms),
                self.scheduler.bugs,
            ),
            *(
                Duty(
                    f"the {each.name} coordinator",
                    each.runtime.tick,
                    each.runtime.next_deadline_ms,
                    self.scheduler.bugs,
                )
                for each in self.coordinators.all
            ),
        )
        self.quorum.start(now_ms, found)
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
        self.scheduler.guarded("call", "a connection to another node", self.outgoing.link_up, link, now_ms)

    def link_received(self, link: int, frame: memoryview, now_ms: int) -> None:
        """An answer of another node, without its length prefix. Views of it are kept while its bytes are needed."""
        self.scheduler.now_ms = now_ms
        self.scheduler.guarded("call", "an answer of another node", self.outgoing.link_received, link, frame, now_ms)

    def link_lost(self, link: int, reason: str, now_ms: int) -> None:
        """A connection to another node broke, or could not be made; `reason` is for people."""
        self.scheduler.now_ms = now_ms
        self.scheduler.guarded(
            "call", "a lost connection to another node", self.outgoing.link_lost, link, reason, now_ms
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
        self.scheduler.now_ms = now_ms
        self.scheduler.timers.advance(now_ms)
        for duty in self._duties:
            duty.tick(now_ms)
        self.scheduler.guarded("request", "the turns of connections", self.dispatcher.turns.serve)
        if self.scheduler.working:
            self.scheduler.guarded("work", "long work", self.scheduler.step)
        if self.state.stopping:
            self._proceed_with_stop(now_ms)

    def next_deadline_ms(self) -> int | None:
        """When `tick` is wanted; now when long work waits for its next step. None: only events can wake the node."""
        if self.scheduler.working or self.dispatcher.turns.waiting or self.outgoing.pending or self.loopback.pending:
            return self.scheduler.now_ms
        soonest = self.scheduler.timers.next_deadline_ms()
        for duty in self._duties:
            deadline = duty.next_deadline_ms()
            if deadline is not None and (soonest is None or deadline < soonest):
                soonest = deadline
        return soonest

    def take_effects(self) -> list[Effect]:
        """What to do now, in order; empties it. Call after each event, or once after all events of a loop turn."""
        if self.fetches.woken:
            self.fetches.serve_woken(self.scheduler.now_ms)
        if self.followers.due:
            self.scheduler.guarded("call", "fetches from leaders", self.followers.send_due, self.scheduler.now_ms)
        if self.outgoing.pending or self.loopback.pending:
            self._call_ourselves()
        for coordinator in self.coordinators.all:
            if coordinator.runtime.has_open_batches:
                coordinator.runtime.flush(self.scheduler.now_ms)
        if self.dispatcher.turns.spent_ms:
            self.dispatcher.turns.turn_ended()
        scheduler = self.scheduler
        effects = scheduler.effects
        if self.logs.has_operations:
            effects += map(Run, self.logs.take_operations())
        if self.quorum.has_operations:
            effects += map(Run, self.quorum.take_operations(scheduler.now_ms))
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
            connection.close(reason, self.effects)

    def read_failed(self, directory: int, error: OSError, now_ms: int) -> None:
        """A cold read failed. A file that retention has removed meanwhile is nothing; else the directory is broken."""
        if not isinstance(error, FileNotFoundError):
            self.logs.fail_directory(directory, error, now_ms)

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
            self.read_failed(self.logs.directory_of(topic, index).index, error, now_ms)
            return ErrorCode.KAFKA_STORAGE_ERROR
        self.scheduler.bug("request", name, error)
        return ErrorCode.UNKNOWN_SERVER_ERROR

    def metrics(self) -> Iterator[Sample]:
        """All samples, with Kafka's names."""
        return (sample for sample in samples_of(self) if sample is not None)

    def metrics_in_steps(self) -> Iterator[Sample | None]:
        """The same for a loop that has others to serve: it may turn to them before each `next`, and so the node may
        change. None where much was looked at and nothing is to be told yet.
        """
        return samples_of(self)

    # QuorumObserver, ControllerObserver, and what the log directories say

    def image_published(self, old: MetadataImage, new: MetadataImage, delta: MetadataDelta, now_ms: int) -> None:
        self.state.image = new
        self.scheduler.guarded("metadata", "what the log says of a new image", self.journal.published, old, delta)
        self.scheduler.guarded("metadata", "a new image", self.publishing.publish, old, new, delta, now_ms)

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
            self._liveness.check(broker_id, broker_epoch, now_ms)

    def _link_lost(self, peer: Peer, channel: str, reason: str, now_ms: int) -> None:
        """The controller takes a lost connection for the death of a broker, unless it soon hears of it again."""
        if channel == Channel.NAME and peer == self.channel.controller:
            self.lifecycle.controller_lost(now_ms)
        elif channel == FETCH_CHANNEL and peer.node_id == self.quorum.leader_id:
            self.quorum.leader_link_lost(now_ms)
        elif channel.startswith(REPLICATION_CHANNEL):
            self.suspects.link_lost(peer, channel, now_ms)

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
            if of_leader and self.outgoing.is_gone(peer, reason):
                self.quorum.leader_gone(at_ms)

        self.outgoing.call(peer, request, timeout_ms=timeout_ms, done=ended, now_ms=now_ms, channel=channel)

    def metadata_log_failed(self, error: Exception, now_ms: int) -> None:
        self.state.fail(error)
        self.lifecycle.metadata_log_failed(now_ms)

    def directory_lost(self, index: int, error: OSError, now_ms: int) -> None:
        """A log directory is offline. Without the metadata log's, or without any, the node ends."""
        self.moves.directory_failed(index, self.scheduler.now_ms)
        if self.directories[index] is self.metadata_directory or not self.logs.table.online:
            self.state.fail(error)
        else:
            self.lifecycle.directories_changed(self.scheduler.now_ms)

    def _call_ourselves(self) -> None:
        """Tells of calls that failed at once, and executes those to this node."""
        for _ in range(OWN_CALL_ROUNDS_MAX):
            if not (self.outgoing.pending or self.loopback.pending):
                break
            self.scheduler.guarded("call", "calls that failed", self.outgoing.proceed, self.scheduler.now_ms)
            self.scheduler.guarded("call", "calls to this node itself", self.loopback.proceed, self.scheduler.now_ms)

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
