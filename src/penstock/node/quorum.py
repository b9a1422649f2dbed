"""The metadata quorum as this node takes part in it: a replica of raft, the metadata log, and what is committed of it.

`start` reads `quorum-state`, the newest checkpoint and the log, and starts the replica: a controller may vote and lead,
a broker observes. `node.replicated_log` connects it to the node; this module adds what the log is about: committed
records go to `metadata` and become images.

The only voter of a quorum has committed everything in its log, and reads it at once; nothing is published before the
first record of its new epoch is committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Protocol
from uuid import UUID

from penstock.config.listeners import split_address
from penstock.config.server import Settings
from penstock.errors import ConfigError, StorageError
from penstock.log.disk import Disk
from penstock.metadata.delta import MetadataError
from penstock.metadata.image import EMPTY_IMAGE, MetadataImage
from penstock.metadata.scram import Credentials
from penstock.node.committed import CommittedMetadata, ImageObserver, Leadership
from penstock.node.replicated_log import LogObserver, ReplicatedLog, Send
from penstock.raft.checkpoint import CheckpointId
from penstock.raft.config import RaftConfig
from penstock.raft.core import Identity
from penstock.raft.driver import read
from penstock.raft.effects import Committed, LeaderChanged, Target
from penstock.raft.history import QuorumHistory
from penstock.raft.storage import Storage
from penstock.raft.topic import METADATA
from penstock.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from penstock.records.wall import WallTime

BOOTSTRAP_ID = -2
"""Node id of the first of controller.quorum.bootstrap.servers, counted down from here, as Kafka does."""


class QuorumObserver(ImageObserver, LogObserver, Protocol):
    """The node around the quorum: hears what has happened, and talks to other nodes."""

    def leader_changed(self, leader: Target | None, now_ms: int) -> None:
        """Another node leads; None: nobody that is known, or this node, whose controller is not active yet."""

    def metadata_log_failed(self, error: Exception, now_ms: int) -> None:
        """The metadata log directory has failed. Without it the node cannot go on."""

    def metadata_log_has_no_room(self, error: OSError, now_ms: int) -> None:
        """Nothing can be written into the metadata log's directory before there is room in it."""

    def metadata_log_has_room(self, now_ms: int) -> None:
        """The metadata log goes on: what waited for room is written."""


class Quorum(ReplicatedLog):
    """See the module's head.

    Attributes:
        metadata: what is committed.
        last_other_leader: the latest leader other than this node, as far as known.
    """

    topic = METADATA
    log_name = "the metadata log"
    foreign = (
        "%s:%d belongs to another cluster than this node, whose cluster.id is %s: is it meant in "
        "controller.quorum.voters or controller.quorum.bootstrap.servers?"
    )
    refusals = (StorageError, MetadataError)
    _observer: QuorumObserver

    def __init__(
        self,
        settings: Settings,
        disk: Disk,
        observer: QuorumObserver,
        *,
        call: Send,
        cluster_id: str | None = None,
        directory_id: UUID,
        random: Random,
        wall: WallTime | None = None,
    ) -> None:
        """`disk` is the blocking disk of the metadata log directory (`metadata.log.dir`), `directory_id` its id; `call`
        is that of `node.quorum_calls`.
        """
        local = ReplicaKey(settings.node_id, directory_id)
        super().__init__(
            local, disk, observer, call=call, cluster_id=cluster_id, random=random, wall=wall or WallTime()
        )
        self.settings = settings
        self.metadata = CommittedMetadata(settings, observer, self.wall)
        self.last_other_leader: int | None = None

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
        self._start(
            self.settings,
            raft_config(self.settings),
            lambda storage: self._prepare(storage, leadership, endpoints, first_credentials),
            now_ms,
        )

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

    # What the log is about, see `ReplicatedLog`

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

    def checkpoint_written(self, checkpoint: CheckpointId, now_ms: int) -> None:
        self.metadata.checkpoint_written(now_ms)

    def checkpoint_found_no_room(self, now_ms: int) -> None:
        self.metadata.checkpoint_found_no_room(now_ms)

    def has_no_room(self, error: OSError, now_ms: int) -> None:
        self._observer.metadata_log_has_no_room(error, now_ms)

    def has_room(self, now_ms: int) -> None:
        self._observer.metadata_log_has_room(now_ms)

    def _goes_on(self, now_ms: int) -> None:
        if self.metadata.behind:
            self.metadata.step(now_ms)
        else:
            self.metadata.consider_checkpoint(now_ms)

    def _goes_on_ms(self, now_ms: int) -> int | None:
        return self.metadata.next_deadline_ms(now_ms)

    def _appends(self, size_bytes: int) -> None:
        self.metadata.appended(size_bytes)

    def _renounce(self, now_ms: int) -> None:
        self.metadata.renounce(now_ms)

    def _tell_failed(self, error: Exception, now_ms: int) -> None:
        self._observer.metadata_log_failed(error, now_ms)

    # For the controller and the handlers

    @property
    def high_watermark(self) -> int | None:
        """The offset below which everything is committed, as far as this node knows."""
        return self._replica.high_watermark

    def upgrade_kraft_version(self, version: int, now_ms: int, *, validate_only: bool = False) -> None:
        """As the leader, finalizes a kraft.version; what is appended next is committed after it.

        Raises RequestError INVALID_UPDATE_VERSION if a voter does not support it, or is not known to.
        """
        assert self.leads, "only the leader finalizes a version"
        self._driver.perform(self._replica.upgrade_kraft_version(version, now_ms, validate_only=validate_only), now_ms)

    def resign(self, now_ms: int) -> None:
        """Gives up the leadership."""
        self._driver.hear(lambda: self._replica.resign(now_ms), now_ms)


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
