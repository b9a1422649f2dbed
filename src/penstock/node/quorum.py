"""The metadata quorum as this node takes part in it: a replica of raft, the metadata log, and what is committed of it.

`start` reads `quorum-state`, the newest checkpoint and the log, and the replica begins: a controller may vote and lead,
a broker observes. The replica decides, and its effects are carried out here: operations of the metadata disk, requests
to other nodes, answers to theirs. What is committed goes to `committed`, which makes the images.

The only voter of a quorum has committed all that it finds in its log, and reads it at once; nothing is published before
its new epoch's first record is committed.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any, Protocol
from uuid import UUID

from penstock.config.limits import RAFT_VOTERS_MAX
from penstock.config.listeners import split_address
from penstock.config.server import Settings
from penstock.errors import ConfigError, ErrorCode, StorageError
from penstock.log.disk import Disk, Operation
from penstock.metadata.delta import MetadataError
from penstock.metadata.image import MetadataImage
from penstock.node.committed import CommittedMetadata, ImageObserver, Leadership
from penstock.protocol.message import Message
from penstock.raft.checkpoint import CheckpointId
from penstock.raft.config import RaftConfig
from penstock.raft.core import Identity
from penstock.raft.effects import (
    Answer,
    AppendControl,
    AppendFetched,
    Call,
    Committed,
    Effect,
    InstallSnapshot,
    LeaderChanged,
    LoadSnapshot,
    PersistElection,
    Target,
    Truncate,
    WriteSnapshot,
)
from penstock.raft.election import ElectionState
from penstock.raft.history import QuorumHistory
from penstock.raft.replica import QuorumDescription, Replica
from penstock.raft.storage import Storage
from penstock.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from penstock.records.builder import BatchBuilder
from penstock.records.control import control_batch

HAND_OVER_TIMEOUT_MS = 1_000
"""How long a clean stop waits until others know that this node leads no more."""
BOOTSTRAP_ID = -2
"""Node id of the first of controller.quorum.bootstrap.servers, counted down from here, as Kafka does."""

logger = logging.getLogger(__name__)

Write = AppendFetched | AppendControl | PersistElection | Truncate | WriteSnapshot | InstallSnapshot


class QuorumObserver(ImageObserver, Protocol):
    """The node around the quorum: hears what has happened, within an event, and talks to other nodes."""

    def leader_changed(self, leader: Target | None, now_ms: int) -> None:
        """Another node leads the quorum, or nobody (None) that may be asked yet: this node only once it is active."""

    def metadata_log_failed(self, error: Exception, now_ms: int) -> None:
        """The metadata log directory has failed. Without it the node cannot go on."""

    def call_quorum(
        self,
        target: Target,
        request: Message,
        timeout_ms: int,
        done: Callable[[Message | None, int], None],
        now_ms: int,
    ) -> None:
        """Sends a request to another node of the quorum; `done` gets its answer, or None, later."""

    def answer(self, request: Any, message: Message, now_ms: int) -> None:
        """Answers a request that `handle` was given."""


class Quorum:
    """See the module's head.

    Attributes:
        local: this replica's key.
        committed: the committed metadata.
        last_other_leader: the node that led most recently and is not this one, as far as known.
    """

    def __init__(
        self,
        settings: Settings,
        disk: Disk,
        observer: QuorumObserver,
        *,
        cluster_id: str | None = None,
        directory_id: UUID,
        random: Random,
    ) -> None:
        """`disk` is the blocking disk of the metadata log directory (`metadata.log.dir`), `directory_id` its id."""
        self.settings = settings
        self.local = ReplicaKey(settings.node_id, directory_id)
        self.committed = CommittedMetadata(settings, observer)
        self._disk = disk
        self._observer = observer
        self._cluster_id = cluster_id
        self._random = random
        self._effects: deque[Effect] = deque()
        self._performing = False
        self.last_other_leader: int | None = None
        self._stopped: Callable[[int], None] | None = None
        self._stop_deadline_ms: int | None = None
        self._closing = False
        self._failed = False
        self._foreign: set[Target] = set()
        self._now_ms = 0
        self._storage: Storage
        self._replica: Replica

    @property
    def image(self) -> MetadataImage:
        """The committed metadata."""
        return self.committed.image

    @property
    def leadership(self) -> Leadership:
        """The controller."""
        return self.committed.leadership

    @leadership.setter
    def leadership(self, controller: Leadership) -> None:
        self.committed.leadership = controller

    @property
    def leads(self) -> bool:
        """Whether this node leads and its controller acts."""
        return self.committed.leads

    @property
    def is_only_voter(self) -> bool:
        """Whether this node is the whole quorum."""
        return self._replica.is_voter and len(self._replica.voters.voters) == 1

    @property
    def kraft_version(self) -> int:
        """The finalized kraft.version, which is not among `image.features`."""
        return self._replica.kraft_version

    # Start

    def start(self, now_ms: int, endpoints: Sequence[VoterEndpoint] = ()) -> None:
        """Reads the directory and begins to take part. Blocks on the disk; called once, before anything is served.

        `endpoints` are where this node's controller is reached. Raises StorageError or ConfigError, in one line, for a
        directory that cannot be used: damaged before its committed end, a record or feature level that is not
        supported, a quorum that this controller cannot belong to.
        """
        self._now_ms = now_ms
        self._storage = Storage(self._disk, self.settings, self, self._random, now_ms)
        self._storage.replica = self
        history = self._read()
        self._replica = Replica(
            self._identity(endpoints, history.voters),
            history,
            self._storage.election,
            self._storage,
            config=raft_config(self.settings),
            random=self._random,
        )
        self.perform(self._replica.start(now_ms), now_ms)

    def _read(self) -> QuorumHistory:
        """Loads the newest checkpoint, and the log after it when this node alone has committed it; finds the voters."""
        history = QuorumHistory(self._static_voters())
        self.committed.open(self._storage, history)
        start_offset = 0
        found = self._storage.newest_checkpoint()
        if found is not None:
            checkpoint_id, checkpoint = found
            start_offset = checkpoint_id.end_offset
            history.start_at(start_offset, checkpoint.voters, checkpoint.kraft_version or 0)
            self.committed.load_checkpoint(checkpoint_id, checkpoint)
        batches = list(self._storage.batches(start_offset))
        for batch in batches:
            for number, message in enumerate(batch.control):
                history.note(batch.header.base_offset + number, message)
        if list(history.voters.voters) == [self.local.id]:
            for batch in batches:
                self.committed.load(batch)
        return history

    def _static_voters(self) -> VoterSet:
        """The voters of `controller.quorum.voters`."""
        listener = self.settings.controller_listener_names[0]
        return VoterSet(
            Voter(ReplicaKey(voter.id), (VoterEndpoint(listener, voter.host, voter.port),))
            for voter in self.settings.voters
        )

    def _identity(self, endpoints: Sequence[VoterEndpoint], voters: VoterSet) -> Identity:
        settings = self.settings
        listener = settings.controller_listener_names[0]
        bootstrap = []
        for number, text in enumerate(settings.controller_quorum_bootstrap_servers):
            host, port = split_address(text, "controller.quorum.bootstrap.servers", "127.0.0.1:9093")
            if port:
                bootstrap.append(Target(BOOTSTRAP_ID - number, host, port, listener))
        if settings.is_controller:
            self._check_place(voters, bootstrap)
        return Identity(
            self.local,
            cluster_id=self._cluster_id,
            listener=listener,
            endpoints=tuple(endpoints),
            bootstrap=bootstrap,
            stands=settings.is_controller,
        )

    def _check_place(self, voters: VoterSet, bootstrap: Sequence[Target]) -> None:
        """Raises ConfigError where this controller can be no part of the quorum, and would wait for it for ever."""
        if not voters.voters and not bootstrap:
            raise StorageError(
                f"the metadata log directory names no quorum voters: format it with --standalone, or set "
                f"controller.quorum.voters={self.local.id}@HOST:PORT"
            )
        if list(voters.voters) == [self.local.id] and self.local not in voters:
            raise ConfigError(
                f"node {self.local.id} with directory {self.local.directory_id} is not a voter of the metadata quorum "
                f"{voters}"
            )

    # What the replica wants done

    def _hear(self, event: Callable[[], Sequence[Effect]], now_ms: int) -> None:
        """Tells the replica of something, and does what it wants. If it cannot read its log, the node fails."""
        try:
            effects = event()
        except StorageError as error:
            self._fail(error, now_ms)
            return
        self.perform(effects, now_ms)

    def perform(self, effects: Sequence[Effect], now_ms: int) -> None:
        """Carries out effects, in order; those that come meanwhile follow."""
        self._now_ms = now_ms
        self._effects.extend(effects)
        if self._performing:
            return
        self._performing = True
        try:
            while self._effects:
                self._carry_out(self._effects.popleft(), now_ms)
        except (MetadataError, StorageError) as error:  # a record that this version cannot follow
            self._effects.clear()
            self._fail(error, now_ms)
        finally:
            self._performing = False
        if self._replica.fault is not None:
            self._fail(StorageError(self._replica.fault), now_ms)
        if self._stop_deadline_ms is not None:
            self._close_if_handed_over(now_ms)

    def _carry_out(self, effect: Effect, now_ms: int) -> None:
        if isinstance(effect, Committed):
            self.committed.commit(effect.high_watermark, now_ms, claim=effect.first)
        elif isinstance(effect, Call):
            done = partial(self._answered, effect.call, effect.target)
            self._observer.call_quorum(effect.target, effect.request, effect.timeout_ms, done, now_ms)
        elif isinstance(effect, Answer):
            self._observer.answer(effect.token, effect.response, now_ms)
        elif isinstance(effect, LeaderChanged):
            self._leader_changed(effect, now_ms)
        elif isinstance(effect, LoadSnapshot):
            self.committed.replace(effect.snapshot, now_ms)
        else:
            self._write(effect, now_ms)

    def _write(self, effect: Write, now_ms: int) -> None:
        storage = self._storage
        if isinstance(effect, AppendFetched):
            storage.append_fetched(effect.records, now_ms)
        elif isinstance(effect, AppendControl):
            self._append_control(effect, now_ms)
        elif isinstance(effect, PersistElection):
            storage.persist_election(effect.state, self.kraft_version, self._replica.voters.voters)
        elif isinstance(effect, Truncate):
            storage.truncate(effect.offset, now_ms)
        elif isinstance(effect, WriteSnapshot):
            storage.write_snapshot(effect.snapshot, effect.position, effect.data)
        else:
            storage.install_snapshot(effect.snapshot)

    def _append_control(self, control: AppendControl, now_ms: int) -> None:
        base_offset = self.next_offset
        batch = control_batch(control.records, base_offset=base_offset, leader_epoch=control.epoch, now_ms=now_ms)
        last_offset = base_offset + len(control.records) - 1
        if self.leads:
            self.leadership.advance(last_offset, control.epoch, now_ms)
            self.committed.appended(len(batch))
        self._append(batch, last_offset + 1, now_ms)

    def _append(self, batch: bytearray, end_offset: int, now_ms: int) -> None:
        self._storage.append(batch, self._replica.epoch, now_ms)
        assert self.next_offset == end_offset, "the batch and the log agree on offsets"
        self._hear(lambda: self._replica.appended(end_offset, now_ms), now_ms)

    def _leader_changed(self, changed: LeaderChanged, now_ms: int) -> None:
        own = changed.leader_id == self.local.id
        if self.leads and not own:
            self.committed.renounce(now_ms)
        if changed.leader_id is not None and not own:
            self.last_other_leader = changed.leader_id
        self._observer.leader_changed(None if own else self._replica.leader_target, now_ms)

    def _answered(self, call: int, target: Target, response: Message | None, now_ms: int) -> None:
        if getattr(response, "error_code", ErrorCode.NONE) == ErrorCode.INCONSISTENT_CLUSTER_ID:
            self._refused_by(target)
        if not self._closing:
            self._hear(lambda: self._replica.answered(call, response, now_ms), now_ms)

    def _refused_by(self, target: Target) -> None:
        """Says once of each node that it belongs to another cluster; it goes on to be asked, should that be mended."""
        if target not in self._foreign and len(self._foreign) < RAFT_VOTERS_MAX:
            self._foreign.add(target)
            logger.error(
                "%s:%d belongs to another cluster than this node, whose cluster.id is %s: is it meant in "
                "controller.quorum.voters or controller.quorum.bootstrap.servers?",
                target.host,
                target.port,
                self._cluster_id,
            )

    # For the controller and the handlers

    @property
    def epoch(self) -> int:
        """The newest leader epoch that this node knows."""
        return self._replica.epoch

    @property
    def leader_id(self) -> int | None:
        """Who leads the quorum, as far as this node knows."""
        return self._replica.leader_id

    @property
    def next_offset(self) -> int:
        """The offset of the record that is appended next."""
        return self._storage.end_offset

    @property
    def high_watermark(self) -> int | None:
        """The offset below which everything is committed, as far as this node knows."""
        return self._replica.high_watermark

    def append(self, batch: BatchBuilder, now_ms: int) -> None:
        """Appends a batch that begins at `next_offset`, as the leader. The controller has replayed it."""
        assert self.leads, "only the leader appends"
        built = batch.build()
        self.committed.appended(len(built))
        self._append(built, batch.base_offset + batch.record_count, now_ms)

    def handle(self, request: Any, now_ms: int) -> None:
        """A request of another node to the replica: it is answered now or later."""
        if not self._closing:
            self._hear(lambda: self._replica.handle(request.body, request.version, now_ms, request), now_ms)

    def leader_link_lost(self, now_ms: int) -> None:
        """The connection by which the log is fetched from the leader broke."""
        if not self._closing:
            self._hear(lambda: self._replica.leader_link_lost(now_ms), now_ms)

    def upgrade_kraft_version(self, version: int, now_ms: int, *, validate_only: bool = False) -> None:
        """As the leader, finalizes a kraft.version; what is appended next is committed after it.

        Raises RequestError INVALID_UPDATE_VERSION for one that the voters do not support, or not all are known to.
        """
        assert self.leads, "only the leader finalizes a version"
        self.perform(self._replica.upgrade_kraft_version(version, now_ms, validate_only=validate_only), now_ms)

    def leader_gone(self, now_ms: int) -> None:
        """Nobody listens where the leader did: its process is no more."""
        if not self._closing:
            self.perform(self._replica.leader_gone(now_ms), now_ms)

    def resign(self, now_ms: int) -> None:
        """Gives up the leadership."""
        self._hear(lambda: self._replica.resign(now_ms), now_ms)

    def describe(self) -> QuorumDescription:
        """The quorum's state, for DescribeQuorum."""
        return self._replica.describe()

    # Time and the disk

    def take_operations(self, now_ms: int) -> list[Operation]:
        """What to run on the metadata disk, in order: once at the end of every turn of the loop.

        All appends of the turn go out as one write and one fsync.
        """
        return self._storage.take_operations(now_ms)

    def tick(self, now_ms: int) -> None:
        """Time has come to `next_deadline_ms`."""
        if self._closing:
            return
        self._hear(lambda: self._replica.tick(now_ms), now_ms)
        if self.committed.behind:
            try:
                self.committed.step(now_ms)
            except (MetadataError, StorageError) as error:
                self._fail(error, now_ms)
        else:
            self.committed.consider_checkpoint(now_ms)

    def next_deadline_ms(self) -> int | None:
        """When `tick` and `take_operations` are wanted."""
        soonest = self._storage.next_deadline_ms()
        if self._closing:
            return soonest
        for deadline in (
            self._replica.next_deadline_ms(),
            self.committed.next_deadline_ms(self._now_ms),
            self._stop_deadline_ms,
        ):
            if deadline is not None and (soonest is None or deadline < soonest):
                soonest = deadline
        return soonest

    def shutdown(self, stopped: Callable[[int], None], now_ms: int) -> None:
        """Hands the leadership over, flushes and closes the log; `stopped(now_ms)` when that is done."""
        if self._failed:
            self._storage.close(stopped, now_ms)
            return
        self._stopped = stopped
        self._stop_deadline_ms = now_ms + HAND_OVER_TIMEOUT_MS
        self._hear(lambda: self._replica.stop(now_ms), now_ms)

    def _close_if_handed_over(self, now_ms: int) -> None:
        assert self._stop_deadline_ms is not None
        assert self._stopped is not None
        if self._closing or not (self._replica.stopped or now_ms >= self._stop_deadline_ms):
            return
        self._closing = True
        self.committed.renounce(now_ms)
        self._storage.close(self._stopped, now_ms)

    def election_persisted(self, state: ElectionState, now_ms: int) -> None:
        self._hear(lambda: self._replica.election_persisted(state, now_ms), now_ms)

    def log_written(self, offset: int, now_ms: int) -> None:
        self._hear(lambda: self._replica.written(offset, now_ms), now_ms)

    def log_flushed(self, offset: int, now_ms: int) -> None:
        self._hear(lambda: self._replica.flushed(offset, now_ms), now_ms)

    def log_truncated(self, log_end_offset: int, now_ms: int) -> None:
        self._hear(lambda: self._replica.truncated(log_end_offset, now_ms), now_ms)

    def snapshot_written(self, snapshot: CheckpointId, size_bytes: int, now_ms: int) -> None:
        self._hear(lambda: self._replica.snapshot_written(snapshot, size_bytes, now_ms), now_ms)

    def snapshot_installed(
        self, snapshot: CheckpointId, voters: VoterSet | None, kraft_version: int, now_ms: int
    ) -> None:
        self._hear(lambda: self._replica.snapshot_installed(snapshot, voters, kraft_version, now_ms), now_ms)

    def snapshot_refused(self, snapshot: CheckpointId, now_ms: int) -> None:
        self._hear(lambda: self._replica.snapshot_refused(snapshot, now_ms), now_ms)

    def checkpoint_written(self, checkpoint: CheckpointId, now_ms: int) -> None:
        self.committed.checkpoint_written(now_ms)

    def storage_failed(self, error: Exception, now_ms: int) -> None:
        """The disk has failed: what is not committed is undone, and this node takes no further part."""
        self._fail(error, now_ms)

    def _fail(self, error: Exception, now_ms: int) -> None:
        if self._failed:
            return
        self._failed = self._closing = True
        self._replica.resign(now_ms)
        self.committed.renounce(now_ms)
        self._observer.metadata_log_failed(error, now_ms)


def raft_config(settings: Settings) -> RaftConfig:
    """The times and sizes of the quorum."""
    return RaftConfig(
        election_timeout_ms=settings.controller_quorum_election_timeout_ms,
        fetch_timeout_ms=settings.controller_quorum_fetch_timeout_ms,
        election_backoff_max_ms=settings.controller_quorum_election_backoff_max_ms,
        request_timeout_ms=settings.controller_quorum_request_timeout_ms,
        retry_backoff_ms=settings.controller_quorum_retry_backoff_ms,
        fetch_max_bytes=settings.controller_quorum_fetch_max_bytes,
        fetch_snapshot_max_bytes=settings.controller_quorum_fetch_snapshot_max_bytes,
        auto_join=settings.controller_quorum_auto_join_enable,
    )
