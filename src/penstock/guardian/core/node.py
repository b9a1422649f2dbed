"""One Guardian node as a state machine: events in, effects out. A broker's shell runs it, and so does the simulator.

It is put together from the parts of a broker's node that are about requests and calls (dispatcher, logins, gate,
outgoing connections) and from the quorum of Guardian's own log. Nothing here waits, reads a clock or opens a file,
except that `start` reads the small files that identify the node, and its log.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NoReturn
from uuid import UUID

from penstock.config.guardian import GuardianSettings
from penstock.errors import ErrorCode, RequestError, StorageError
from penstock.guardian.core.alarms.early_warning import EarlyWarning
from penstock.guardian.core.alarms.submitting import PlanSubmission
from penstock.guardian.core.calls import Call
from penstock.guardian.core.canary import Canary
from penstock.guardian.core.front import Answered, Front
from penstock.guardian.core.handlers import handlers
from penstock.guardian.core.identity import GuardianIdentity, read_identity
from penstock.guardian.core.quorum import GuardianQuorum
from penstock.guardian.core.reach import Reach
from penstock.guardian.core.records import FEATURE_LEVEL
from penstock.guardian.core.sampler import Sampler
from penstock.guardian.core.sight import Sight
from penstock.guardian.core.work.executor import Executor
from penstock.log.directory import LogDirectory
from penstock.metadata.image import EMPTY_IMAGE
from penstock.node.channel import Channel
from penstock.node.client_metrics.node_part import ClientMetrics
from penstock.node.client_quotas import ClientQuotas
from penstock.node.connection import Connection
from penstock.node.denials import Denials
from penstock.node.dispatcher import Dispatcher
from penstock.node.duties import Duty
from penstock.node.effects import Effect, Run
from penstock.node.gate import Gate, authorizer_of
from penstock.node.identities import Identities
from penstock.node.journal import Journal
from penstock.node.machine import NodeMachine
from penstock.node.mechanisms import mechanisms_of
from penstock.node.outgoing import Outgoing
from penstock.node.peer_logins import PeerLogins
from penstock.node.plugged import NOTHING_PLUGGED, Plugged
from penstock.node.purgatory import Purgatory
from penstock.node.quorum_calls import QuorumCalls
from penstock.node.request import Served
from penstock.node.scheduler import Scheduler
from penstock.node.state import NodeState
from penstock.node.turns import CountedWork
from penstock.records.wall import WallTime

UNREPORTED_ROUNDS_MAX = 16
"""Rounds in which calls that failed at once are told to their callers, which may call again, in one turn."""


class NoRecords:
    """No handler of Guardian's answers with records for a cluster's controller."""

    def append(self, *_: Any, **__: Any) -> NoReturn:
        raise RequestError(ErrorCode.NOT_CONTROLLER, "Guardian is no controller.")

    def when_committed(self, *_: Any) -> NoReturn:
        raise RequestError(ErrorCode.NOT_CONTROLLER, "Guardian is no controller.")

    def connection_closed(self, connection: int) -> None:
        """Nobody watches over connections of clients."""


class GuardianNode(NodeMachine):
    """See the module's head. `now_ms`, which never goes back, is for timers; `wall` is for timestamps.

    Args:
        settings: the node's. directory: the one at `penstock.guardian.data.dir`. random: all randomness of the node.
        bug: gets errors that should never happen; by default they are logged. work_ms: a clock, in ms, that measures
        the work of requests. wall: the wall time, kept by the shell. nonces: randomness for logins and tokens, which
        nobody outside may guess. plugged: see there. knows: its highest feature level, lower if it is to be that of an
        older version.

    Attributes:
        front: answers calls. quorum: the log, and what is committed of it. identity: what `start` has read.
        sight: what has been seen of the clusters. reach: calls to their brokers. executor: does what plans say.
        early_warning: raises alarms, heals. canary: measures brokers.
    """

    def __init__(
        self,
        settings: GuardianSettings,
        directory: LogDirectory,
        *,
        random: Random,
        bug: Callable[[str, Exception], None] | None = None,
        work_ms: Callable[[], float] | None = None,
        wall: WallTime | None = None,
        nonces: Random | None = None,
        plugged: Plugged = NOTHING_PLUGGED,
        knows: int = FEATURE_LEVEL,
    ) -> None:
        self.knows = knows
        self.guardian_settings = settings
        node_settings = settings.node
        state = self.state = NodeState(node_settings, directory)
        self._nonces = nonces or random
        scheduler = self.scheduler = Scheduler(random, wall or WallTime(), bug)
        self.connections: dict[int, Connection] = {}
        self.identity: GuardianIdentity
        self.quorum: GuardianQuorum
        self.front: Front
        self.executor: Executor
        users = EMPTY_IMAGE.scram_credentials
        mechanisms = mechanisms_of(state, scheduler, plugged, lambda: users, self._nonces)
        self._outgoing = outgoing_of(state, scheduler, PeerLogins(mechanisms, scheduler.emit, directory.index))
        self.sight = Sight()
        self.reach = Reach(self.outgoing, scheduler.timers, self.sight, settings.credentials)
        self.early_warning = self._early_warning()
        self.canary = self._canary()
        authorizer = authorizer_of(node_settings)
        authorizer.loaded()
        self.gate = Gate(authorizer, Denials(authorizer, scheduler))
        served = Served(self, handlers().values(), node_settings.controller_listener_names)
        timeout_ms = node_settings.request_timeout_ms
        self.dispatcher = Dispatcher(
            self.connections,
            scheduler,
            served,
            self.gate,
            Channel(state.node_id, self.outgoing, scheduler.timers, scheduler.bugs, request_timeout_ms=timeout_ms),
            controller=NoRecords,
            purgatory=Purgatory(scheduler.timers),
            journal=Journal(state, scheduler, lambda: False, lambda: False),
            mechanisms=mechanisms,
            identities=Identities(lambda: node_settings, plugged),
            login_timeout_ms=node_settings.penstock_receive_timeout_ms,
            login_delay_ms=node_settings.connection_failed_authentication_delay_ms,
            read_failed=lambda index, error, now_ms: self.log_failed(error),
            work_ms=work_ms or CountedWork(),
            request_timeout_ms=timeout_ms,
            quotas=ClientQuotas(state, scheduler, self.gate),
            client_metrics=ClientMetrics(state, scheduler),
        )

    def _early_warning(self) -> EarlyWarning:
        scheduler = self.scheduler
        return EarlyWarning(
            lambda: self.quorum,
            self.sight,
            self.reach,
            scheduler.wall,
            self.guardian_settings,
            do=scheduler.do,
            new_id=lambda: UUID(int=scheduler.random.getrandbits(128), version=4),
            submission=PlanSubmission(lambda: self.quorum, self.sight),
        )

    def _canary(self) -> Canary:
        return Canary(
            lambda: self.quorum,
            self.sight,
            self.reach,
            self.scheduler.wall,
            where=self.guardian_settings.penstock_guardian_canary,
            every_ms=self.guardian_settings.penstock_guardian_canary_interval_ms,
        )

    # Life

    @property
    def ready(self) -> bool:
        """Whether the node can answer: it knows a leader, and how old at most what it knows is."""
        if not self.state.ready or self.state.stopping:
            return False
        return self.quorum.leader_id is not None and self.quorum.age_ms(self.scheduler.now_ms) is not None

    @property
    def outgoing(self) -> Outgoing:
        """Calls to other nodes, and to the brokers of clusters."""
        return self._outgoing

    def may_act(self, now_ms: int) -> bool:
        """Whether this node may act by itself now, see `guardian.core.lease`."""
        return self.state.failure is None and not self.state.stopping and self.quorum.may_act(now_ms)

    def start(self, now_ms: int) -> None:
        """Identifies the directory, reads its log and begins to take part; blocks on the disk.

        Raises ConfigError or StorageError, in one line, for a directory that cannot be used.
        """
        scheduler, directory = self.scheduler, self.state.metadata_directory
        scheduler.now_ms = now_ms
        settings, disk = self.guardian_settings, directory.blocking_disk
        try:
            self.identity = read_identity(disk, directory.path, settings)
            directory.id = self.identity.directory_id
            self.quorum = GuardianQuorum(
                settings,
                self.identity,
                disk,
                self,
                call=QuorumCalls(self.outgoing, lambda: self.quorum).call,
                random=scheduler.random,
                nonces=self._nonces,
                wall=scheduler.wall,
                knows=self.knows,
            )
            self.front = Front(
                self.quorum,
                self.outgoing,
                self.sight,
                scheduler.wall,
                timeout_ms=settings.penstock_guardian_request_timeout_ms,
                knows=self.knows,
            )
            sampler = Sampler(
                self.sight,
                self.reach,
                scheduler.wall,
                state=lambda: self.quorum.state,
                leads=lambda: self.quorum.leads,
                may_act=self.may_act,
                do=scheduler.do,
                interval_ms=settings.penstock_guardian_sample_interval_ms,
            )
            self.quorum.start(now_ms)
        except OSError as error:
            raise StorageError(f"{directory.path} cannot be read: {error.strerror}") from error
        executor = self.executor = Executor(self.quorum, self.reach, scheduler.wall, scheduler.bugs, self.may_act)
        scheduler.duties = (
            Duty("the quorum", self.quorum.tick, self.quorum.next_deadline_ms, scheduler.bugs, self._quorum_broke),
            Duty("the executor", executor.tick, executor.next_deadline_ms, scheduler.bugs),
            Duty("the looks at clusters", sampler.tick, sampler.next_deadline_ms, scheduler.bugs),
            Duty("the canaries", self.canary.tick, self.canary.next_deadline_ms, scheduler.bugs),
            Duty("early warning", self.early_warning.tick, self.early_warning.next_deadline_ms, scheduler.bugs),
        )
        self.state.ready = True

    def shutdown(self, now_ms: int) -> None:
        """Begins a clean stop: the leadership is handed over, the log flushed. `stopped` is true when it is done."""
        self.scheduler.now_ms = now_ms
        self.scheduler.stirred = True
        if not self.state.stopping:
            self.state.stopping = True
            self.quorum.shutdown(self._log_closed, now_ms)

    def _log_closed(self, now_ms: int) -> None:
        self.dispatcher.close_all("the node is stopping")
        self.state.stopped = True

    # Events

    def connection_delay_ms(self, address: str, now_ms: int) -> int:
        """No address is held back."""
        return 0

    def next_deadline_ms(self) -> int | None:
        """When `tick` must be called. None: only events can wake the node."""
        scheduler = self.scheduler
        if scheduler.working or self.dispatcher.turns.waiting or self.outgoing.unreported:
            return scheduler.now_ms
        return scheduler.next_deadline_ms()

    def take_effects(self) -> list[Effect]:
        """Returns the effects to carry out, in order, and forgets them. Call it after each event or each loop turn."""
        scheduler = self.scheduler
        now_ms = scheduler.now_ms
        for _ in range(UNREPORTED_ROUNDS_MAX):
            if not self.outgoing.unreported:
                break
            scheduler.stirred = True
            scheduler.guarded("call", "calls that failed", self.outgoing.proceed, now_ms)
        if self.dispatcher.turns.spent_ms:
            self.dispatcher.turns.turn_ended()
        effects = scheduler.effects
        if self.quorum.has_operations:
            effects += map(Run, self.quorum.take_operations(now_ms))
        scheduler.effects = []
        return effects

    # For others

    def ask(self, call: Call, answered: Answered, now_ms: int) -> None:
        """Has a call answered that came otherwise than over the node's listener; `answered` is called once."""
        self._happens(now_ms)
        self.front.take(call, answered, now_ms, handed_on=False)

    def log_failed(self, error: Exception) -> None:
        """The node cannot go on; the shell ends the process."""
        self.state.fail(error)

    def _quorum_broke(self, error: Exception, now_ms: int) -> None:
        self.log_failed(error)


def outgoing_of(state: NodeState, scheduler: Scheduler, logins: PeerLogins) -> Outgoing:
    """Calls of a node to others, by its settings."""
    settings = state.settings
    return Outgoing(
        state.node_id,
        timers=scheduler.timers,
        random=scheduler.random,
        report=scheduler.bugs.of("call"),
        emit=scheduler.emit,
        idle_ms=settings.connections_max_idle_ms,
        setup_timeout_ms=settings.socket_connection_setup_timeout_ms,
        setup_timeout_max_ms=settings.socket_connection_setup_timeout_max_ms,
        logins=logins,
    )
