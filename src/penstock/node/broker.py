"""One node, broker and controller in one, as a state machine: events in, effects out.

The shell (server) or the simulator calls `start`, `connected`, `received`, `disconnected`, `operation_completed`,
`operation_failed` and `tick`, and after one or several of them `take_effects`, whose effects it carries out in order.
The appends of all events between two calls of `take_effects` go out as one write a log: so a shell gives all frames
that one turn of its loop has received and then takes the effects. Nothing here waits, reads a clock or opens a file
(but `start`, which reads the small files that say who we are).

Handlers get the broker as `node`. What they use of it: `settings`, `image` (the committed metadata), `quorum`,
`controller`, `logs`, `replicas` (the partitions this node leads), `timers`, `purgatory`, `random`, `answer`, `hold`
and `release`.

How a node comes up: the log directories say who they are; the metadata log is read; the controller becomes active;
the broker registers, makes the replicas that it is assigned, is unfenced, and leads. `ready` is true from then on.
How it goes down: leaderships are given up, connections closed, logs flushed, closed and marked, the metadata log
closed last.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, Any
from uuid import UUID

from penstock.config.limits import LOST_CONNECTION_GRACE_MS
from penstock.config.server import Settings
from penstock.config.topic import TopicConfig
from penstock.errors import StorageError
from penstock.log.directory import LogDirectory
from penstock.log.disk import Operation
from penstock.log.events import LogEvent
from penstock.log.manager import LogManager
from penstock.metadata.bootstrap import read_bootstrap
from penstock.metadata.brokers import Registration
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.image import EMPTY_IMAGE, Endpoint, MetadataImage
from penstock.node.channel import Channel
from penstock.node.connection import Connection
from penstock.node.controller import ControllerNode
from penstock.node.dispatcher import Dispatcher
from penstock.node.effects import Effect, Run
from penstock.node.followers import REPLICATION_CHANNEL, Followers
from penstock.node.groups import GroupCoordinator
from penstock.node.handlers import registry
from penstock.node.isr import IsrChanges
from penstock.node.lifecycle import Lifecycle
from penstock.node.loopback import Loopback
from penstock.node.metrics import RequestCounters, Sample, TopicMetrics
from penstock.node.moves import Moves
from penstock.node.outgoing import NotServed, Outgoing, Peer
from penstock.node.producer_ids import ProducerIds
from penstock.node.publishing import Publishing
from penstock.node.purgatory import Purgatory
from penstock.node.quorum import Quorum
from penstock.node.request import Message, Request
from penstock.node.samples import samples_of
from penstock.node.suspects import Suspects
from penstock.node.throttles import ReplicationThrottles
from penstock.node.timers import Timer, TimerWheel
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.fetch_request import FetchRequest
from penstock.raft.effects import Target
from penstock.raft.messages import unsupported
from penstock.raft.voters import VoterEndpoint
from penstock.replication.fetch_session import SessionCache
from penstock.replication.replicas import Replicas
from penstock.security.authorizer import AllowAll, Authorizer

if TYPE_CHECKING:
    from penstock.node.handlers.fetch import Fetch

logger = logging.getLogger(__name__)

DOOR_CHANNEL = "door"
KNOCKS_MAX = 4
KNOCK_AGAIN_MS = 20
RAFT_CHANNEL, FETCH_CHANNEL = "raft", "raft fetch"
"""Channels of the quorum: a vote must not wait behind a fetch that waits for records."""
OWN_CALL_ROUNDS_MAX = 16
"""Steps of calls to ourselves within one turn of the loop; a call and its answer are two."""


class Broker:
    """See the module's head. `now_ms` is the shell's one clock, wall-clock milliseconds, never going back.

    Args:
        settings: the node's settings. directories: one for each entry of `settings.directories`, in that order.
        metadata_directory: the one at `settings.metadata_directory`; one of `directories` unless metadata.log.dir is
        elsewhere. random: all randomness of the node. report: gets what a person should know of the log directories;
        the shell logs it. bug: gets what should never happen, with the exception; by default it is logged. The
        simulator raises.

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
        *,
        random: Random,
        metadata_directory: LogDirectory | None = None,
        report: Callable[[LogEvent], None] = lambda event: None,
        bug: Callable[[str, Exception], None] | None = None,
    ) -> None:
        self.settings = settings
        self.node_id = settings.node_id
        self.random = random
        self.directories = directories
        self.metadata_directory = metadata_directory or next(
            directory for directory in directories if directory.path == settings.metadata_directory
        )
        self.effects: list[Effect] = []
        self.timers = TimerWheel()
        self.purgatory = Purgatory(self.timers)
        self.loopback = Loopback(self)
        self.outgoing = Outgoing(
            self.node_id,
            timers=self.timers,
            random=random,
            emit=self._emit,
            emit_own=self.loopback.carry_out,
            idle_ms=settings.connections_max_idle_ms,
            setup_timeout_ms=settings.socket_connection_setup_timeout_ms,
            setup_timeout_max_ms=settings.socket_connection_setup_timeout_max_ms,
        )
        self.outgoing.on_link_lost.append(self._link_lost)
        self.suspects = Suspects(self.outgoing)
        self.channel = Channel(self)
        self.authorizer: Authorizer = AllowAll()
        self.connections: dict[int, Connection] = {}
        self.image: MetadataImage = EMPTY_IMAGE
        self.replicas: Replicas = Replicas(
            self.node_id, lambda: self.logs, self.directory_lost, lag_time_max_ms=settings.replica_lag_time_max_ms
        )
        self.throttles = ReplicationThrottles(settings)
        self.followers = Followers(self, self.replicas)
        self.replicas.followers = self.followers
        self.isr_changes = IsrChanges(self.node_id, self.replicas, self.channel, self.timers)
        self.replicas.isr = self.isr_changes
        self.logs = LogManager(
            settings,
            directories,
            topic_config=self.topic_config,
            random=random,
            report=report,
            listener=self.replicas,
        )
        self.quorum: Quorum
        self.controller: ControllerNode
        self.moves = Moves(self)
        self.dispatcher = Dispatcher(self, registry())
        self.publishing = Publishing(self)
        self.lifecycle = Lifecycle(self)
        self.producer_ids = ProducerIds(self)
        self.groups = GroupCoordinator(self)
        self.fetch_sessions = SessionCache(settings.max_incremental_fetch_session_cache_slots, random)
        self.api_versions_cache: tuple[object, int, dict[tuple[str, int], tuple[bytes, bytes]]] = (None, 0, {})
        self.metadata_cache: tuple[object, dict[tuple[object, ...], tuple[bytes, bytes]]] = (None, {})
        self.topic_metrics = TopicMetrics()
        self.request_counters = {
            int(key): RequestCounters(handler.api.name) for key, handler in self.dispatcher.handlers.items()
        }
        self.cold_reads = 0
        self.fetch_looked_at = 0
        self.parked_fetches: dict[Timer, Fetch] = {}
        self.woken_fetches: dict[Fetch, None] = {}
        self.bugs = 0
        self.failure: Exception | None = None
        self._bug = bug
        self._work: deque[Iterator[None]] = deque()
        self.now_ms = 0

    # Life

    @property
    def ready(self) -> bool:
        return self.lifecycle.ready

    @property
    def stopped(self) -> bool:
        return self.lifecycle.stopped

    @property
    def cluster_id(self) -> str:
        """The id of the cluster, from meta.properties."""
        return self.logs.cluster_id

    def start(
        self, endpoints: Sequence[Endpoint], now_ms: int, *, controller_endpoints: Sequence[Endpoint] | None = None
    ) -> None:
        """Begins to boot. Reads, blocking, what the directories say. `ready` is true when the node serves.

        Args:
            endpoints: the addresses to register, as clients reach them; known once the listeners are bound.
            controller_endpoints: those of this node's controller, as other nodes reach it; None: as in the settings.

        Raises ConfigError or StorageError, in one line, for directories that cannot be used.
        """
        self.now_ms = now_ms
        directory = self.metadata_directory
        self.logs.start(now_ms, metadata_directory=directory)
        if directory.error is not None:
            raise StorageError(f"the metadata log directory {directory.path} is not readable: {directory.error}")
        directory_id = directory.id
        assert directory_id is not None, "an identified directory has an id"
        disk = directory.blocking_disk
        self.quorum = Quorum(
            self.settings, disk, self, cluster_id=self.cluster_id, directory_id=directory_id, random=self.random
        )
        self.controller = ControllerNode(
            self.settings, self.quorum, self, bootstrap=read_bootstrap(disk), random=self.random
        )
        self.lifecycle.incarnation_id = UUID(int=self.random.getrandbits(128), version=4)
        if self.settings.is_broker:
            self.lifecycle.registration = self._registration(endpoints)
        if self.settings.is_controller and controller_endpoints is None:
            own = self.settings.controller_endpoints
            controller_endpoints = [Endpoint(each.listener, each.host, each.port) for each in own]
        self.lifecycle.controller_endpoints = controller_endpoints if self.settings.is_controller else None
        found = [VoterEndpoint(each.name, each.host, each.port) for each in controller_endpoints or ()]
        self.quorum.start(now_ms, found)
        self.lifecycle.start(now_ms)

    def _registration(self, endpoints: Sequence[Endpoint]) -> Registration:
        return Registration(
            broker_id=self.node_id,
            incarnation_id=self.lifecycle.incarnation_id,
            endpoints=tuple(endpoints),
            log_dirs=tuple(found.id for found in self.directories if found.id is not None and found.error is None),
            rack=self.settings.broker_rack,
            previous_broker_epoch=self.logs.previous_broker_epoch,
        )

    def shutdown(self, now_ms: int) -> None:
        """Begins a clean stop: no new requests, logs flushed and marked. `stopped` is true when it is done."""
        self.now_ms = now_ms
        self.lifecycle.shutdown(now_ms)

    # Events

    def connected(self, connection: int, listener: str, peer: str, now_ms: int) -> None:
        """A client connected. `connection` is a number the shell never uses again, `listener` a listener's name."""
        assert connection not in self.connections
        settings = self.settings
        self.connections[connection] = Connection(
            connection,
            listener,
            peer,
            self.dispatcher.handlers_of(listener),
            max_in_flight=settings.penstock_connection_max_in_flight,
            max_in_flight_bytes=settings.penstock_connection_max_in_flight_bytes,
        )

    def received(self, connection: int, frame: memoryview, now_ms: int) -> None:
        """One frame, without its length prefix, of a writable buffer. Views of it are kept while its bytes are needed.

        A frame of a connection that the node has closed is ignored.
        """
        self.now_ms = now_ms
        found = self.connections.get(connection)
        if found is not None:
            self.dispatcher.received(found, frame, now_ms)

    def disconnected(self, connection: int, now_ms: int) -> None:
        """The connection is gone. Its parked requests are dropped; appends on their way go on."""
        found = self.connections.pop(connection, None)
        if found is not None:
            self._abandon(found)
            self.controller.connection_lost(connection, now_ms)

    def link_up(self, link: int, now_ms: int) -> None:
        """A connection that `Dial` asked for has been made."""
        self.now_ms = now_ms
        self.outgoing.link_up(link, now_ms)

    def link_received(self, link: int, frame: memoryview, now_ms: int) -> None:
        """An answer of another node, without its length prefix. Views of it are kept while its bytes are needed."""
        self.now_ms = now_ms
        self.outgoing.link_received(link, frame, now_ms)

    def link_lost(self, link: int, reason: str, now_ms: int) -> None:
        """A connection to another node broke, or could not be made; `reason` is for people."""
        self.now_ms = now_ms
        self.outgoing.link_lost(link, reason, now_ms)

    def operation_completed(self, operation: Operation, result: Any, now_ms: int) -> None:
        """An operation of `Run` has ended well."""
        self.now_ms = now_ms
        operation.owner.operation_completed(operation, result, now_ms)
        if self.lifecycle.stopping:
            self.lifecycle.proceed(now_ms)

    def operation_failed(self, operation: Operation, error: OSError, now_ms: int) -> None:
        """An operation of `Run` has raised `error`."""
        self.now_ms = now_ms
        operation.owner.operation_failed(operation, error, now_ms)
        if self.lifecycle.stopping:
            self.lifecycle.proceed(now_ms)

    def tick(self, now_ms: int) -> None:
        """Time has come to `next_deadline_ms`: timers fire, and long work goes on for one step of it."""
        self.now_ms = now_ms
        self.timers.advance(now_ms)
        self.logs.tick(now_ms)
        self.quorum.tick(now_ms)
        self.controller.tick(now_ms)
        self.groups.runtime.tick(now_ms)
        if self._work:
            work = self._work.popleft()
            if next(work, self) is not self:
                self._work.append(work)
        if self.lifecycle.stopping:
            self.lifecycle.proceed(now_ms)

    def next_deadline_ms(self) -> int | None:
        """When `tick` is wanted; now when long work waits for its next step. None: only events can wake the node."""
        if self._work or self.outgoing.pending or self.loopback.pending:
            return self.now_ms
        soonest = self.timers.next_deadline_ms()
        for deadline in (
            self.logs.next_deadline_ms(),
            self.quorum.next_deadline_ms(),
            self.controller.next_deadline_ms(self.now_ms),
            self.groups.runtime.next_deadline_ms(),
        ):
            if deadline is not None and (soonest is None or deadline < soonest):
                soonest = deadline
        return soonest

    def take_effects(self) -> list[Effect]:
        """What to do now, in order; empties it. Call after each event, or once after all events of a loop turn."""
        if self.woken_fetches:
            self._wake_fetches()
        if self.followers.due:
            self.followers.send_due(self.now_ms)
        self._call_ourselves()
        self.groups.runtime.flush(self.now_ms)
        effects = self.effects
        for operation in self.logs.take_operations():
            effects.append(Run(operation))
        for operation in self.quorum.take_operations(self.now_ms):
            effects.append(Run(operation))
        self.effects = []
        return effects

    # For handlers and the parts of the node

    def answer(self, request: Request[Any], message: Message | None, now_ms: int) -> None:
        """Answers a request for which the handler returned LATER. None: no response frame."""
        self.dispatcher.answer(request, message, now_ms)

    def close(self, connection: Connection, reason: str) -> None:
        """Closes a connection after what has been answered on it; drops its other requests."""
        if self.connections.pop(connection.id, None) is not None:
            self.controller.connection_closed(connection.id)
            self._abandon(connection)
            connection.close(reason, self.effects)

    def do(self, work: Iterator[None]) -> None:
        """Has long work done, one `next` a tick, in turn with other long work."""
        self._work.append(work)

    def topic_config(self, name: str) -> TopicConfig:
        """The configuration of a topic now. Topics without overrides share one object."""
        overrides = self.image.topic_configs(name)
        return TopicConfig.resolve(self.settings, overrides) if overrides else self.settings.topic_defaults

    def rack_of(self, broker_id: int) -> str | None:
        """The rack of a broker; None if it has none or is not registered."""
        broker = self.image.brokers.get(broker_id)
        return None if broker is None else broker.rack

    def read_failed(self, directory: int, path: str, error: OSError, now_ms: int) -> None:
        """A cold read failed. A file that retention has removed meanwhile is nothing; else the directory is broken."""
        if not isinstance(error, FileNotFoundError):
            self.logs.fail_directory(directory, error, now_ms)

    def bug(self, where: str, error: Exception) -> None:
        """Something that should never happen did. The request is answered UNKNOWN_SERVER_ERROR and the node goes on."""
        self.bugs += 1
        if self._bug is not None:
            self._bug(where, error)
        else:
            logger.error("error in %s", where, exc_info=error)

    def request_answered(self, request: Request[Any], now_ms: int) -> None:
        """Counts a request and its time."""
        counters = self.request_counters[request.handler.number]
        counters.requests += 1
        counters.total_time_ms += now_ms - request.arrived_ms

    def metrics(self) -> Iterator[Sample]:
        """All samples, with Kafka's names."""
        return samples_of(self)

    # QuorumObserver, ControllerObserver, and what the log directories say

    def image_published(self, old: MetadataImage, new: MetadataImage, delta: MetadataDelta, now_ms: int) -> None:
        self.image = new
        self.publishing.publish(old, new, delta, now_ms)

    def controller_active(self, now_ms: int) -> None:
        own = self.settings.controller_endpoints[0]
        self._controller_changed(Peer(self.node_id, own.host, own.port, own.listener), now_ms)

    def leader_changed(self, leader: Target | None, now_ms: int) -> None:
        peer = None if leader is None else Peer(leader.node_id, leader.host, leader.port, leader.listener)
        self._controller_changed(peer, now_ms)

    def _controller_changed(self, peer: Peer | None, now_ms: int) -> None:
        if peer == self.channel.controller:
            return
        self.channel.controller_changed(peer, now_ms)
        if peer is not None:
            self.lifecycle.controller_lost(now_ms)
            self.dispatcher.controller_known(now_ms)

    def broker_suspected(self, broker_id: int, broker_epoch: int, now_ms: int) -> None:
        self._knock(broker_id, broker_epoch, KNOCKS_MAX, now_ms)

    def _knock(self, broker_id: int, broker_epoch: int, knocks: int, now_ms: int) -> None:
        """Knocks at the broker's door: a dead process is fenced at once, a live one keeps its grace.

        A process that dies closes its connections one by one, and may take a last one meanwhile that breaks too.
        """
        peer = self.followers.peer(broker_id)
        if peer is None or broker_id == self.node_id:
            return

        def answered(answer: Message | None, reason: str | None, at_ms: int) -> None:
            self.outgoing.hang_up(peer, DOOR_CHANNEL, "it was only to be seen whether anybody is there", at_ms)
            if answer is None and self.outgoing.is_gone(peer, reason):
                self.controller.process_gone(broker_id, broker_epoch, at_ms)
            elif answer is None and knocks > 1:
                self.timers.at(
                    at_ms + KNOCK_AGAIN_MS, lambda later_ms: self._knock(broker_id, broker_epoch, knocks - 1, later_ms)
                )

        self.outgoing.call(
            peer,
            ApiVersionsRequest(),
            version=0,
            timeout_ms=LOST_CONNECTION_GRACE_MS,
            done=answered,
            now_ms=now_ms,
            channel=DOOR_CHANNEL,
        )

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
        self.failure = self.failure or error
        self.lifecycle.metadata_log_failed(now_ms)

    def directory_lost(self, index: int, error: OSError, now_ms: int) -> None:
        """A log directory is offline. Without the metadata log's, or without any, the node ends."""
        self.moves.directory_failed(index, self.now_ms)
        if self.directories[index] is self.metadata_directory or not self.logs.online:
            self.failure = self.failure or error
        else:
            self.lifecycle.directories_changed(self.now_ms)

    def _wake_fetches(self) -> None:
        """Fetches that have waited for what was appended in this turn."""
        woken, self.woken_fetches = self.woken_fetches, {}
        for fetch in woken:
            fetch.wake(self.now_ms)

    def _emit(self, effect: Effect) -> None:
        self.effects.append(effect)

    def _call_ourselves(self) -> None:
        """Tells of calls that failed at once, and executes those to this node."""
        for _ in range(OWN_CALL_ROUNDS_MAX):
            if not (self.outgoing.pending or self.loopback.pending):
                break
            self.outgoing.proceed(self.now_ms)
            self.loopback.proceed(self.now_ms)

    def _abandon(self, connection: Connection) -> None:
        connection.closed = True
        connection.waiting.clear()
        for request in connection.in_flight:
            if not request.done and request.abandoned is not None:
                request.abandoned()
        connection.in_flight.clear()
