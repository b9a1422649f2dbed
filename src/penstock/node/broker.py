"""One node, broker and controller in one, as a state machine: events in, effects out.

The shell (`server`) or the simulator calls `start`, `connected`, `received`, `disconnected`, `operation_completed`,
`operation_failed`, `operation_broke` and `tick`. After one or more of these it calls `take_effects` and carries out the
effects in order. All appends to a log between two calls of `take_effects` become one write, so a shell first passes on
all frames that one turn of its loop has received. Nothing here waits, reads a clock or opens a file, except that
`start` reads the small files that identify the node.

Handlers get the broker as `node`. They use `state` (settings and committed metadata), `scheduler` (time, timers, long
work), `gate`, `quorum`, `controller`, `coordinators`, `logs`, `replicas` (the partitions that this node leads),
`replication`, `journal`, `answer`, and `dispatcher.later` around whatever continues a request later. The parts of the
node are given what they use; the quorum, the controller and the calls of the node to itself know the broker by a narrow
protocol, the others not at all.

Start: the log directories are identified; the metadata log is read; the controller becomes active; the broker
registers, creates the replicas assigned to it, is unfenced, and leads. From then on `ready` is true. Stop: leaderships
are given up, connections closed, logs flushed, closed and marked clean, and last the metadata log is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from types import MethodType

from penstock.config.server import Settings
from penstock.errors import StorageError
from penstock.log.directory import LogDirectory
from penstock.log.events import LogEvent
from penstock.log.space import is_full
from penstock.metadata.bootstrap import read_bootstrap
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.image import Endpoint, MetadataImage
from penstock.metadata.scram import changed_by
from penstock.node.audit import Audit
from penstock.node.calls import Calls
from penstock.node.channel import Channel
from penstock.node.client_metrics.node_part import ClientMetrics
from penstock.node.client_quotas import ClientQuotas
from penstock.node.connection import Connection
from penstock.node.controller import ControllerNode
from penstock.node.coordinator_host import CoordinatorHost
from penstock.node.coordinator_list import Coordinators
from penstock.node.denials import Denials
from penstock.node.dispatcher import Dispatcher
from penstock.node.duties import Duty
from penstock.node.effects import Effect, Run
from penstock.node.fetches import Fetches, answer_followers, serve_woken
from penstock.node.gate import AuditedGate, Gate, authorizer_of
from penstock.node.identities import Identities
from penstock.node.journal import Journal
from penstock.node.lifecycle import Lifecycle
from penstock.node.loopback import Loopback
from penstock.node.machine import NodeMachine
from penstock.node.mechanisms import mechanisms_of
from penstock.node.metrics import Sample, TopicMetrics
from penstock.node.node_samples import node_samples
from penstock.node.opening import opening
from penstock.node.outgoing import Outgoing, Peer
from penstock.node.plugged import NOTHING_PLUGGED, Plugged
from penstock.node.producer_ids import ProducerIds
from penstock.node.purgatory import Purgatory
from penstock.node.quorum import Quorum
from penstock.node.quorum_calls import QuorumCalls
from penstock.node.quorums import Quorums
from penstock.node.replication import Replication
from penstock.node.request import Handler, Served
from penstock.node.scheduler import Scheduler
from penstock.node.state import NodeState
from penstock.node.turns import CountedWork
from penstock.node.verification import Verifier
from penstock.protocol.api import ApiKey
from penstock.raft.effects import Target
from penstock.raft.voters import VoterEndpoint
from penstock.records.wall import WallTime
from penstock.security.authorizer import Authorizer


class Broker(NodeMachine):
    """See the module's head. `now_ms`, which never goes back, is for timers; `wall` is for timestamps.

    Args:
        settings: the node's settings. directories: one for each entry of `settings.directories`, in that order.
        handlers: those of the APIs that are served, as `node.handlers.registry` finds them.
        metadata_directory: the one at `settings.metadata_directory`; one of `directories` unless metadata.log.dir is
        elsewhere. random: all randomness of the node. report: gets the events of log directories for people; the shell
        logs them. bug: gets errors that should never happen; by default they are logged, the simulator raises them.
        work_ms: a clock, in ms, that measures the work of requests; by default it counts what is done. wall: the wall
        time, kept by the shell. quotas: makes what says how long clients have to wait. audit: hears of all requests; by
        default nobody does. authorizer: says who may do what; by default the one that the settings name. nonces:
        randomness for logins, which nobody outside may guess; by default `random`. plugged: see there.

    Attributes:
        now_ms: the time of the event being handled. ready: the node leads its partitions and serves.
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
        quotas: Callable[[NodeState, Scheduler, Gate], ClientQuotas] = ClientQuotas,
        audit: Audit | None = None,
        authorizer: Authorizer | None = None,
        nonces: Random | None = None,
        plugged: Plugged = NOTHING_PLUGGED,
    ) -> None:
        metadata_directory = metadata_directory or next(
            directory for directory in directories if directory.path == settings.metadata_directory
        )
        state = self.state = NodeState(settings, metadata_directory)
        scheduler = self.scheduler = Scheduler(random, wall or WallTime(), bug)
        self.purgatory = Purgatory(scheduler.timers)
        mechanisms = mechanisms_of(
            state, scheduler, plugged, lambda: self.quorum.metadata.scram_credentials, nonces or random
        )
        self.calls = Calls(
            state,
            scheduler,
            Loopback(self, state, scheduler),
            mechanisms=mechanisms,
            process_gone=self._process_gone,
            controller=lambda: self.controller,
        )
        self.calls.own.direct = {
            each.api.request_class: MethodType(each.direct, self) for each in handlers.values() if each.direct
        }
        outgoing = self.calls.outgoing
        self.channel = Channel(
            state.node_id, outgoing, scheduler.timers, scheduler.bugs, request_timeout_ms=settings.request_timeout_ms
        )
        authorizer = authorizer or authorizer_of(settings)
        denials = Denials(authorizer, scheduler)
        self.gate = Gate(authorizer, denials) if audit is None else AuditedGate(authorizer, denials, audit)
        self.quorums = Quorums()
        client_quotas = quotas(state, scheduler, self.gate)
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
        self.journal = Journal(state, scheduler, lambda: self.replicas.caught_up, lambda: self.controller.active)
        self.dispatcher = Dispatcher(
            self.connections,
            scheduler,
            Served(self, handlers.values(), settings.controller_listener_names),
            self.gate,
            self.channel,
            controller=lambda: self.controller,
            purgatory=self.purgatory,
            journal=self.journal,
            mechanisms=mechanisms,
            identities=Identities(lambda: state.settings, plugged),
            login_timeout_ms=settings.penstock_receive_timeout_ms,
            login_delay_ms=settings.connection_failed_authentication_delay_ms,
            read_failed=self.logs.read_failed,
            work_ms=work_ms or CountedWork(),
            request_timeout_ms=settings.request_timeout_ms,
            quotas=client_quotas,
            client_metrics=ClientMetrics(state, scheduler),
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
            quotas=client_quotas,
            topic_metrics=self.topic_metrics,
            partition_error=self.replication.partition_error,
        )
        self.lifecycle = Lifecycle(
            state,
            scheduler,
            self.replication,
            self.channel,
            outgoing,
            quorum=lambda: self.quorum,
            controller=lambda: self.controller,
            close_connections=self.dispatcher.close_all,
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
                own_calls=self.calls.own,
                journal=self.journal,
                producer_ids=self.producer_ids,
                controller=lambda: self.controller,
            )
        )

    # Life

    @property
    def ready(self) -> bool:
        return self.state.ready

    @property
    def cluster_id(self) -> str:
        """The id of the cluster, from meta.properties."""
        return self.logs.cluster_id

    @property
    def settings(self) -> Settings:
        return self.state.settings

    @property
    def image(self) -> MetadataImage:
        """The committed metadata."""
        return self.state.image

    @property
    def now_ms(self) -> int:
        """The time of the event being handled."""
        return self.scheduler.now_ms

    @property
    def outgoing(self) -> Outgoing:
        """Calls to other nodes."""
        return self.calls.outgoing

    @property
    def quotas(self) -> ClientQuotas:
        """What clients may use, and have used."""
        return self.dispatcher.exit.quotas

    @property
    def verifier(self) -> Verifier:
        """Asks the coordinators of transactions whether they go on."""
        return self.calls.verifier

    def start(
        self, endpoints: Sequence[Endpoint], now_ms: int, *, controller_endpoints: Sequence[Endpoint] | None = None
    ) -> None:
        """Begins to boot. Reads, blocking, the files that identify the directories. `ready` is true when the node
        serves.

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
            call=QuorumCalls(self.calls.outgoing, lambda: self.quorum).call,
            cluster_id=self.cluster_id,
            directory_id=directory_id,
            random=self.scheduler.random,
            wall=self.scheduler.wall,
        )
        self.quorums.add(self.quorum)
        with opening(directory):
            bootstrap = read_bootstrap(disk)
        controller = self.controller = ControllerNode(
            self.state.settings,
            self.quorum,
            self,
            bootstrap=bootstrap,
            random=self.scheduler.random,
            own_broker_epoch=lambda: self.state.broker_epoch,
        )
        if self.state.settings.is_controller and controller_endpoints is None:
            own = self.state.settings.controller_endpoints
            controller_endpoints = [Endpoint(each.listener, each.host, each.port) for each in own]
        self.lifecycle.identify(endpoints, controller_endpoints)
        found = [VoterEndpoint(each.name, each.host, each.port) for each in controller_endpoints or ()]
        bugs = self.scheduler.bugs
        self.scheduler.duties = (
            Duty("the logs", self.logs.tick, self.logs.next_deadline_ms, bugs),
            Duty("the quorum", self.quorum.tick, self.quorum.next_deadline_ms, bugs, self.metadata_log_failed),
            Duty("the controller", controller.tick, lambda: controller.next_deadline_ms(self.scheduler.now_ms), bugs),
            *(
                Duty(f"the {each.name} coordinator", each.runtime.tick, each.runtime.next_deadline_ms, bugs)
                for each in self.coordinators.all
            ),
        )
        with opening(directory):
            first = changed_by(self.image.scram_credentials, bootstrap)
            self.quorum.start(now_ms, controller, found, first_credentials=first)
        self.logs.unmark(now_ms)
        self.lifecycle.start(now_ms)

    def shutdown(self, now_ms: int) -> None:
        """Begins a clean stop: no new requests, logs flushed and marked. `stopped` is true when it is done."""
        self.scheduler.now_ms = now_ms
        self.scheduler.stirred = True
        self.lifecycle.shutdown(now_ms)

    # Events

    def connection_delay_ms(self, address: str, now_ms: int) -> int:
        """Asked before a client's connection is accepted: after how many ms it is closed instead; 0: never."""
        return self.quotas.connection_delay_ms(address, now_ms)

    def disconnected(self, connection: int, now_ms: int) -> None:
        """The connection is gone. Frames that arrived before are still executed; then parked requests are dropped."""
        known = connection in self.connections
        super().disconnected(connection, now_ms)
        if known:
            self.scheduler.guarded("connection", "the loss of it", self.controller.connection_lost, connection, now_ms)

    def _event_ended(self, now_ms: int) -> None:
        if self.state.stopping:
            self.scheduler.guarded("duty", "a clean stop", self.lifecycle.proceed, now_ms)

    def next_deadline_ms(self) -> int | None:
        """When `tick` must be called; now if long work waits for its next step. None: only events can wake the node."""
        scheduler, calls = self.scheduler, self.calls
        if scheduler.working or self.dispatcher.turns.waiting or calls.outgoing.unreported or calls.loopback.events:
            return scheduler.now_ms
        if self.fetches.woken:  # by what woken fetches, or calls, led to
            return scheduler.now_ms
        return scheduler.next_deadline_ms()

    def take_effects(self) -> list[Effect]:
        """Returns the effects to carry out, in order, and forgets them. Call it after each event or each loop turn."""
        scheduler = self.scheduler
        now_ms = scheduler.now_ms
        if self.fetches.woken:
            serve_woken(self.fetches, now_ms)
        if self.replication.followers.due:
            scheduler.guarded("call", "fetches from leaders", self.replication.followers.send_due, now_ms)
        calls = self.calls
        if calls.outgoing.unreported or calls.loopback.events:
            scheduler.stirred = True
            calls.proceed(now_ms)
        for coordinator in self.coordinators.all:
            if coordinator.runtime.has_open_batches:
                coordinator.runtime.flush(now_ms)
        if self.dispatcher.turns.spent_ms:
            self.dispatcher.turns.turn_ended()
        effects = scheduler.effects
        if self.logs.has_operations:
            effects += map(Run, self.logs.take_operations())
        if scheduler.stirred or scheduler.untaken:
            scheduler.untaken = False
            if self.quorum.has_operations:
                effects += map(Run, self.quorum.take_operations(now_ms))
        scheduler.effects = []
        return effects

    # For handlers and the parts of the node

    def metrics(self) -> Iterator[Sample]:
        """All samples, with Kafka's names."""
        return (sample for sample in self.metrics_in_steps() if sample is not None)

    def metrics_in_steps(self) -> Iterator[Sample | None]:
        """The samples of `metrics`, in steps: None where a caller may serve others, whereupon the node may change.
        Samples of one name follow each other.
        """
        return node_samples(self)

    # QuorumObserver, ControllerObserver, and what the log directories say

    def image_published(self, old: MetadataImage, new: MetadataImage, delta: MetadataDelta, now_ms: int) -> None:
        self.state.image = new
        if delta.acls:
            self._acls_changed(old, new, delta)
        if delta.client_quotas:
            self.quotas.configure(new.client_quotas)
            self.quotas.addresses_changed(delta.client_quotas)
        self.dispatcher.client_metrics.configure(delta.configs)
        self.scheduler.guarded("metadata", "what the log says of a new image", self.journal.published, old, delta)
        self.scheduler.guarded("call", "connections to brokers", self.calls.published, old, new, now_ms)
        publish = self.replication.publishing.publish
        self.scheduler.guarded("metadata", "a new image", publish, old, new, delta, now_ms)
        self.scheduler.guarded("metadata", "what requests know of the metadata", self._tell_requests, delta, now_ms)
        self.coordinators.published(delta, now_ms)
        self.scheduler.guarded("metadata", "this node's own registration", self.lifecycle.published, now_ms)
        self.scheduler.guarded("call", "the watch over brokers", self.calls.frozen.begin, now_ms)
        caught_up = self.replicas.caught_up if self.settings.is_broker else not self.quorum.metadata.behind
        if caught_up:
            self.gate.authorizer.loaded()

    def _acls_changed(self, old: MetadataImage, new: MetadataImage, delta: MetadataDelta) -> None:
        """Has the authorizer follow. A node whose authorizer cannot does not go on: it would decide by old ACLs."""
        try:
            self.gate.authorizer.changed({each: (old.acls.get(each), new.acls.get(each)) for each in delta.acls})
        except Exception as error:
            self.state.fail(error)
            raise
        self.fetches.sessions.rights_changed()

    def _tell_requests(self, delta: MetadataDelta, now_ms: int) -> None:
        for topic in delta.deleted_topics.values():
            self.topic_metrics.forget(topic.name)
        self.fetches.sessions.capacity = self.settings.max_incremental_fetch_session_cache_slots
        if any(changed.partitions for changed in delta.topics.values()):
            answer_followers(self.fetches, now_ms)

    def controller_active(self, now_ms: int) -> None:
        own = self.state.settings.controller_endpoints[0]
        self._controller_changed(Peer(self.state.node_id, own.host, own.port, own.listener), now_ms)
        self.calls.frozen.begin(now_ms)

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
        """Checks whether a broker's process is still there: if not, the broker is fenced at once."""
        if broker_id != self.state.node_id:
            self.calls.liveness.check(broker_id, broker_epoch, now_ms)

    def _process_gone(self, broker_id: int, broker_epoch: int, now_ms: int) -> None:
        self.controller.process_gone(broker_id, broker_epoch, now_ms)

    def metadata_log_failed(self, error: Exception, now_ms: int) -> None:
        self.state.fail(error)
        self.lifecycle.metadata_log_failed(now_ms)

    def metadata_log_has_no_room(self, error: OSError, now_ms: int) -> None:
        self.logs.metadata_log_has_no_room(self.state.metadata_directory, error, now_ms)
        self.lifecycle.metadata_log_has_no_room(now_ms)

    def metadata_log_has_room(self, now_ms: int) -> None:
        self.logs.metadata_log_has_room(self.state.metadata_directory)

    def directory_lost(self, index: int, error: OSError, now_ms: int) -> None:
        """A log directory has gone offline. The node fails if it was the metadata log's, or the last one online.

        Unless it is stopping anyway, and there was no room for that to be a clean stop.
        """
        self.replication.moves.directory_failed(index, self.scheduler.now_ms)
        if self.state.stopping and is_full(error):
            return
        if self.logs.table.directories[index] is self.state.metadata_directory or not self.logs.table.online:
            self.state.fail(error)
        else:
            self.lifecycle.directories_changed(self.scheduler.now_ms)
