"""The metadata quorum as this node takes part in it: a replica of raft, the metadata log, and what is committed of it.

`start` reads `quorum-state`, the newest checkpoint and the log, and starts the replica: a controller may vote and lead,
a broker observes. `raft.driver` carries out the replica's effects; this module connects it to the node: requests to
other nodes, answers to theirs, and committed records, which go to `metadata` and become images.

The only voter of a quorum has committed everything in its log, and reads it at once; nothing is published before the
first record of its new epoch is committed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any, Protocol
from uuid import UUID

from penstock.config.listeners import split_address
from penstock.config.server import Settings
from penstock.errors import ConfigError, ErrorCode, StorageError
from penstock.log.disk import Disk, Operation
from penstock.metadata.delta import MetadataError
from penstock.metadata.image import EMPTY_IMAGE, MetadataImage
from penstock.metadata.scram import Credentials
from penstock.node.committed import CommittedMetadata, ImageObserver, Leadership
from penstock.node.request import Request
from penstock.protocol.message import Message
from penstock.raft.checkpoint import CheckpointId
from penstock.raft.config import RaftConfig
from penstock.raft.core import Identity
from penstock.raft.driver import Driver, read
from penstock.raft.effects import Answer, Call, Committed, Effect, LeaderChanged, Target
from penstock.raft.history import QuorumHistory
from penstock.raft.limits import RAFT_VOTERS_MAX
from penstock.raft.replica import QuorumDescription, RaftReplica
from penstock.raft.storage import Storage
from penstock.raft.topic import METADATA
from penstock.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from penstock.records.builder import BatchBuilder
from penstock.records.wall import WallTime

HAND_OVER_TIMEOUT_MS = 1_000
"""How long a clean stop waits until others know that this node leads no more."""
BOOTSTRAP_ID = -2
"""Node id of the first of controller.quorum.bootstrap.servers, counted down from here, as Kafka does."""

logger = logging.getLogger(__name__)


class QuorumObserver(ImageObserver, Protocol):
    """The node around the quorum: hears what has happened, and talks to other nodes."""

    def quorum_stirred(self) -> None:
        """What the quorum or the controller has to do, or when, may have changed."""

    def leader_changed(self, leader: Target | None, now_ms: int) -> None:
        """Another node leads; None: nobody that is known, or this node, whose controller is not active yet."""

    def metadata_log_failed(self, error: Exception, now_ms: int) -> None:
        """The metadata log directory has failed. Without it the node cannot go on."""

    def metadata_log_has_no_room(self, error: OSError, now_ms: int) -> None:
        """Nothing can be written into the metadata log's directory before there is room in it."""

    def metadata_log_has_room(self, now_ms: int) -> None:
        """The metadata log goes on: what waited for room is written."""

    def bug(self, place: str, what: str, error: Exception) -> None:
        """An error that should never happen was raised."""

    def answer(self, request: Any, message: Message, now_ms: int) -> None:
        """Answers a request that `handle` was given."""


class Quorum:
    """See the module's head.

    Attributes:
        topic: the topic that the log belongs to.
        local: this replica's key.
        metadata: what is committed. wall: the time that records are stamped with.
        last_other_leader: the latest leader other than this node, as far as known.
    """

    topic = METADATA

    def __init__(
        self,
        settings: Settings,
        disk: Disk,
        observer: QuorumObserver,
        *,
        call: Callable[[Target, Message, int, Callable[[Message | None, int], None], int], None],
        cluster_id: str | None = None,
        directory_id: UUID,
        random: Random,
        wall: WallTime | None = None,
    ) -> None:
        """`disk` is the blocking disk of the metadata log directory (`metadata.log.dir`), `directory_id` its id; `call`
        is that of `node.quorum_calls`.
        """
        self.settings = settings
        self.local = ReplicaKey(settings.node_id, directory_id)
        self.wall = wall or WallTime()
        self.metadata = CommittedMetadata(settings, observer, self.wall)
        self._disk = disk
        self._observer = observer
        self._call = call
        self._cluster_id = cluster_id
        self._random = random
        self.last_other_leader: int | None = None
        self._stopped: Callable[[int], None] | None = None
        self._stop_deadline_ms: int | None = None
        self._failed = False
        self._foreign: set[Target] = set()
        self._now_ms = 0
        self._driver: Driver

    @property
    def image(self) -> MetadataImage:
        """The committed metadata."""
        return self.metadata.image

    @property
    def leadership(self) -> Leadership:
        """The controller."""
        return self.metadata.leadership

    @property
    def leads(self) -> bool:
        """Whether this node leads and its controller acts."""
        return self.metadata.leads

    @property
    def is_only_voter(self) -> bool:
        """Whether this node is the only voter."""
        return self._replica.is_voter and len(self._replica.voters.voters) == 1

    def last_fetch_ms(self, node_id: int) -> int:
        """When a node last fetched the log from this one, which leads; -1: never."""
        return self._replica.last_fetch_ms(node_id)

    @property
    def kraft_version(self) -> int:
        """The finalized kraft.version, which is not among `image.features`."""
        return self._replica.kraft_version

    @property
    def _replica(self) -> RaftReplica:
        return self._driver.replica

    # Start

    def start(
        self,
        now_ms: int,
        leadership: Leadership,
        endpoints: Sequence[VoterEndpoint] = (),
        *,
        first_credentials: Credentials = EMPTY_IMAGE.scram_credentials,
    ) -> None:
        """Reads the directory and begins to take part. Blocks on the disk; called once, before anything is served.

        `leadership` is this node's controller, `endpoints` are where it is reached, `first_credentials` those that the
        node was formatted with. Raises StorageError or ConfigError, in one line, for a directory that cannot be used:
        damaged before its committed end, a record or feature level that is not supported, a quorum that this controller
        cannot belong to.
        """
        self._now_ms = now_ms
        self._driver = Driver(
            self._disk,
            self.settings,
            self,
            lambda storage: self._prepare(storage, leadership, endpoints, first_credentials),
            config=raft_config(self.settings),
            randoms=(self._random, self._random),
            wall=self.wall,
            now_ms=now_ms,
        )
        self._driver.start(now_ms)

    def _prepare(
        self,
        storage: Storage,
        leadership: Leadership,
        endpoints: Sequence[VoterEndpoint],
        first_credentials: Credentials,
    ) -> tuple[Identity, QuorumHistory]:
        """Loads the newest checkpoint, and the log after it if this node, as the only voter, has committed it."""
        history, found, batches = read(storage, self._static_voters())
        self.metadata.open(storage, history, leadership)
        self.metadata.find_credentials(first_credentials, found, batches)
        if found is not None:
            self.metadata.load_checkpoint(*found)
        if list(history.voters.voters) == [self.local.id]:
            for batch in batches:
                self.metadata.load(batch)
        return self._identity(endpoints, history.voters), history

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
        """Raises an error if this controller cannot be part of the quorum and would wait for it for ever."""
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

    # What is around the replica, see `raft.driver.DriverHost`

    def carries_out(self, effect: Effect) -> None:
        """Ignores the start of an effect: only its end matters here."""

    def control_appended(self, batch: bytearray, last_offset: int, epoch: int, now_ms: int) -> None:
        if self.leads:
            self.leadership.advance(last_offset, epoch, now_ms)
            self.metadata.appended(len(batch))

    def committed(self, committed: Committed, now_ms: int) -> None:
        self.metadata.commit(committed.high_watermark, now_ms, claim=committed.first)

    def load_snapshot(self, snapshot: CheckpointId, now_ms: int) -> None:
        self.metadata.replace(snapshot, now_ms)

    def leader_changed(self, changed: LeaderChanged, now_ms: int) -> None:
        own = changed.leader_id == self.local.id
        if self.leads and not own:
            self.metadata.renounce(now_ms)
        if changed.leader_id is not None and not own:
            self.last_other_leader = changed.leader_id
        self._observer.leader_changed(None if own else self._replica.leader_target, now_ms)

    def call(self, call: Call, now_ms: int) -> None:
        done = partial(self._answered, call.call, call.target)
        self._call(call.target, call.request, call.timeout_ms, done, now_ms)

    def answer(self, answer: Answer, now_ms: int) -> None:
        self._observer.answer(answer.token, answer.response, now_ms)

    def truncated(self, now_ms: int) -> None:
        """Ignores a truncation: the records that were cut were never committed."""

    def checkpoint_written(self, checkpoint: CheckpointId, now_ms: int) -> None:
        self.metadata.checkpoint_written(now_ms)

    def checkpoint_found_no_room(self, now_ms: int) -> None:
        self.metadata.checkpoint_found_no_room(now_ms)

    def has_no_room(self, error: OSError, now_ms: int) -> None:
        self._observer.metadata_log_has_no_room(error, now_ms)

    def has_room(self, now_ms: int) -> None:
        self._observer.metadata_log_has_room(now_ms)

    def failed(self, error: Exception, now_ms: int, *, raised: bool = False) -> None:
        """Undoes what is not committed; this node takes no further part in the quorum."""
        self._fail(error, now_ms)
        if raised and not isinstance(error, MetadataError | StorageError):
            self._observer.bug("metadata", "the metadata log", error)

    def performed(self, now_ms: int) -> None:
        self._now_ms = now_ms
        self._observer.quorum_stirred()
        if self._stop_deadline_ms is not None:
            self._close_if_handed_over(now_ms)

    def _answered(self, call: int, target: Target, response: Message | None, now_ms: int) -> None:
        if getattr(response, "error_code", ErrorCode.NONE) == ErrorCode.INCONSISTENT_CLUSTER_ID:
            self._refused_by(target)
        self._driver.answered(call, response, now_ms)

    def _refused_by(self, target: Target) -> None:
        """Logs, once for each node, that it belongs to another cluster; it is still asked: that may be corrected."""
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
        """The leader of the quorum, as far as this node knows."""
        return self._replica.leader_id

    @property
    def next_offset(self) -> int:
        """The offset of the record that is appended next."""
        return self._driver.storage.end_offset

    @property
    def high_watermark(self) -> int | None:
        """The offset below which everything is committed, as far as this node knows."""
        return self._replica.high_watermark

    @property
    def waits_for_room(self) -> bool:
        """Whether the log's disk is full, so that nothing is committed by this node before there is room."""
        return self._driver.storage.no_room.waits

    def check_append(self, size_bytes: int) -> None:
        """Raises RequestError or StorageError if the log would refuse a batch of this size: it must not be replayed."""
        self._driver.storage.log.check_append(size_bytes)

    def append(self, batch: BatchBuilder, now_ms: int) -> None:
        """Appends a batch that begins at `next_offset`, as the leader. The controller has replayed it."""
        assert self.leads, "only the leader appends"
        try:
            built = batch.build()
            self.metadata.appended(len(built))
            self._driver.append(built, batch.base_offset + batch.record_count, now_ms)
        except Exception as error:  # a bug: what the log holds and what was replayed are not the same any more
            self._fail(error, now_ms)
            raise

    def handle(self, request: Request[Any], now_ms: int) -> None:
        """Passes a request of another node to the replica, which answers now or later."""
        self._driver.handle(request.body, request.version, request, now_ms, request.listener)

    def leader_link_lost(self, now_ms: int) -> None:
        """The connection over which the log is fetched from the leader broke."""
        if not self._driver.closing:
            self._driver.hear(lambda: self._replica.leader_link_lost(now_ms), now_ms)

    def upgrade_kraft_version(self, version: int, now_ms: int, *, validate_only: bool = False) -> None:
        """As the leader, finalizes a kraft.version; what is appended next is committed after it.

        Raises RequestError INVALID_UPDATE_VERSION if a voter does not support it, or is not known to.
        """
        assert self.leads, "only the leader finalizes a version"
        self._driver.perform(self._replica.upgrade_kraft_version(version, now_ms, validate_only=validate_only), now_ms)

    def leader_gone(self, now_ms: int) -> None:
        """Nothing listens at the leader's address: its process has ended."""
        if not self._driver.closing:
            self._driver.perform(self._replica.leader_gone(now_ms), now_ms)

    def resign(self, now_ms: int) -> None:
        """Gives up the leadership."""
        self._driver.hear(lambda: self._replica.resign(now_ms), now_ms)

    def describe(self) -> QuorumDescription:
        """The quorum's state, for DescribeQuorum."""
        return self._replica.describe()

    # Time and the disk

    @property
    def has_operations(self) -> bool:
        """Whether `take_operations` may have something to do."""
        return self._driver.storage.has_operations

    def take_operations(self, now_ms: int) -> list[Operation]:
        """The operations to run on the metadata disk, in order; call it once at the end of every turn of the loop.

        All appends of the turn go out as one write and one fsync.
        """
        return self._driver.storage.take_operations(now_ms)

    def tick(self, now_ms: int) -> None:
        """Called at `next_deadline_ms`."""
        if self._driver.closing:
            return
        self._driver.hear(lambda: self._replica.tick(now_ms), now_ms)
        if self.metadata.behind:
            try:
                self.metadata.step(now_ms)
            except (MetadataError, StorageError) as error:
                self._fail(error, now_ms)
        else:
            self.metadata.consider_checkpoint(now_ms)

    def next_deadline_ms(self) -> int | None:
        """When `tick` and `take_operations` must be called."""
        soonest = self._driver.storage.next_deadline_ms()
        if self._driver.closing:
            return soonest
        for deadline in (
            self._replica.next_deadline_ms(),
            self.metadata.next_deadline_ms(self._now_ms),
            self._stop_deadline_ms,
        ):
            if deadline is not None and (soonest is None or deadline < soonest):
                soonest = deadline
        return soonest

    def shutdown(self, stopped: Callable[[int], None], now_ms: int) -> None:
        """Hands over the leadership, flushes and closes the log; then calls `stopped(now_ms)`."""
        if self._failed:
            self._driver.storage.close(stopped, now_ms)
            return
        self._stopped = stopped
        self._stop_deadline_ms = now_ms + HAND_OVER_TIMEOUT_MS
        self._driver.hear(lambda: self._replica.stop(now_ms), now_ms)

    def _close_if_handed_over(self, now_ms: int) -> None:
        assert self._stop_deadline_ms is not None
        assert self._stopped is not None
        if self._driver.closing or not (self._replica.stopped or now_ms >= self._stop_deadline_ms):
            return
        self._driver.close()
        self.metadata.renounce(now_ms)
        self._driver.storage.close(self._stopped, now_ms)

    def _fail(self, error: Exception, now_ms: int) -> None:
        if self._failed:
            return
        self._failed = True
        self._driver.close()
        self._replica.resign(now_ms)
        self.metadata.renounce(now_ms)
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
