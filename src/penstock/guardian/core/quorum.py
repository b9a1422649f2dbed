"""Guardian's own quorum as a node takes part in it: a replica of raft, its log, and what is committed of it.

`node.replicated_log` connects the replica to the node around it, for this quorum as for the metadata quorum. Here is
what the log is about: committed records go to the state, and the leader makes changes and has a lease.
"""

from __future__ import annotations

import logging
from random import Random
from typing import Protocol

from penstock.config.guardian import LISTENER, GuardianSettings
from penstock.guardian.core.committed import Committed
from penstock.guardian.core.identity import GuardianIdentity
from penstock.guardian.core.leader import Leader
from penstock.guardian.core.lease import Lease
from penstock.guardian.core.state import GuardianState
from penstock.log.disk import Disk
from penstock.node.replicated_log import LogObserver, ReplicatedLog, Send
from penstock.protocol.message import Message
from penstock.protocol.messages.fetch_request import FetchRequest
from penstock.raft import effects, messages
from penstock.raft.checkpoint import CheckpointId
from penstock.raft.config import RaftConfig
from penstock.raft.core import Identity
from penstock.raft.driver import read
from penstock.raft.effects import Call, LeaderChanged, Target
from penstock.raft.history import QuorumHistory
from penstock.raft.storage import Storage
from penstock.raft.topic import GUARDIAN
from penstock.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from penstock.records.wall import WallTime

FETCHES_IN_A_LEASE = 4
"""How often at least a follower fetches within a lease, also when there is nothing to get."""

logger = logging.getLogger(__name__)


class QuorumObserver(LogObserver, Protocol):
    """The node around the quorum."""

    def log_failed(self, error: Exception) -> None:
        """The log cannot be used any more: the node cannot go on."""


class GuardianQuorum(ReplicatedLog):
    """See the module's head.

    Attributes:
        committed_part: what is committed. leader: changes, while this node leads. lease: when it may act by itself.
    """

    topic = GUARDIAN
    log_name = "Guardian's log"
    foreign = (
        "%s:%d belongs to another Guardian than this node, whose id is %s: is it meant in penstock.guardian.voters?"
    )
    _observer: QuorumObserver

    def __init__(
        self,
        settings: GuardianSettings,
        identity: GuardianIdentity,
        disk: Disk,
        observer: QuorumObserver,
        *,
        call: Send,
        random: Random,
        nonces: Random,
        wall: WallTime,
    ) -> None:
        """`disk` is the blocking disk of the directory with this identity; `call` is that of `node.quorum_calls`."""
        local = ReplicaKey(settings.penstock_guardian_node_id, identity.directory_id)
        super().__init__(local, disk, observer, call=call, cluster_id=identity.guardian_id, random=random, wall=wall)
        self.settings = settings
        self.committed_part = Committed(settings.penstock_guardian_snapshot_bytes, wall)
        self.leader = Leader(self, self.committed_part, random, nonces)
        self.lease = Lease(settings.lease_ms, wall)
        self._claiming = False
        self._fresh_ms: int | None = None

    # What is known

    @property
    def state(self) -> GuardianState:
        """What is committed, as far as this node has applied it."""
        return self.committed_part.state

    @property
    def leads(self) -> bool:
        """Whether this node leads and takes changes."""
        return self.leader.active

    @property
    def leader_target(self) -> Target | None:
        """Where the leader is, if that is another node and known."""
        found = self._replica.leader_target
        return None if found is None or found.node_id == self.local.id else found

    def may_act(self, now_ms: int) -> bool:
        """Whether this node may act by itself now: it leads, and a majority is known to have followed it lately."""
        return self.leads and self.lease.holds(self._replica.majority_contact_ms(now_ms), now_ms)

    def age_ms(self, now_ms: int) -> int | None:
        """How old the state is at most: how long ago it was known to be all that was committed; None: not known yet.

        That of a leader with the lease is of this moment. A follower's is as old as its last fetch that the leader has
        answered, if it has applied everything that was committed by then.
        """
        if self.may_act(now_ms):
            return 0
        return None if self._fresh_ms is None else max(0, self.wall.elapsed(now_ms) - self._fresh_ms)

    # Start

    def start(self, now_ms: int) -> None:
        """Reads the directory and begins to take part; blocks. Raises StorageError, in one line, for a log that is
        damaged, or was written by a newer version.
        """
        self._start(self.settings.node, raft_config(self.settings), self._prepare, now_ms)

    def _prepare(self, storage: Storage) -> tuple[Identity, QuorumHistory]:
        """Loads the newest snapshot; of the log after it nobody knows yet what is committed."""
        voters = VoterSet(
            Voter(ReplicaKey(voter.id), (VoterEndpoint(LISTENER, voter.host, voter.port),))
            for voter in self.settings.node.voters
        )
        history, found, _ = read(storage, voters)
        self.committed_part.open(storage, found)
        return Identity(self.local, cluster_id=self._cluster_id, listener=LISTENER, topic=GUARDIAN), history

    # What the log is about, see `ReplicatedLog`

    def control_appended(self, batch: bytearray, last_offset: int, epoch: int, now_ms: int) -> None:
        if self.leads:
            self.leader.control_appended(last_offset, epoch)

    def committed(self, committed: effects.Committed, now_ms: int) -> None:
        self._claiming = self._claiming or committed.first
        self.committed_part.commit(committed.high_watermark)
        self._goes_on(now_ms)

    def _goes_on(self, now_ms: int) -> None:
        """Applies what is committed; takes over once this node leads and nothing is left to apply."""
        if self.leads:
            self.leader.committed(self.committed_part.high_watermark, now_ms)
            self.committed_part.consider_snapshot(now_ms)
            return
        self.committed_part.step(now_ms)
        if self._claiming and not self.committed_part.behind:
            self._claiming = False
            self.leader.claim(now_ms)

    def load_snapshot(self, snapshot: CheckpointId, now_ms: int) -> None:
        self.committed_part.load_snapshot(snapshot)

    def leader_changed(self, changed: LeaderChanged, now_ms: int) -> None:
        if changed.leader_id != self.local.id:
            self._renounce(now_ms)
        if changed.leader_id is not None:
            logger.info("node %d leads in epoch %d", changed.leader_id, changed.epoch)

    def _renounce(self, now_ms: int) -> None:
        self._claiming = False
        if self.leads:
            self.leader.renounce(now_ms)

    def _answered(self, call: Call, asked_ms: int, response: Message | None, now_ms: int) -> None:
        super()._answered(call, asked_ms, response, now_ms)
        fetched = isinstance(call.request, FetchRequest) and call.target == self.leader_target
        if fetched and self._has_all_of(response):
            self._fresh_ms = max(self._fresh_ms or 0, asked_ms)

    def _has_all_of(self, response: Message | None) -> bool:
        """Whether all that the leader told was committed is applied here: what is still to be fetched, or flushed, is
        not.
        """
        partition = None if response is None else messages.partition_of(response, GUARDIAN)
        if partition is None or partition.error_code or partition.high_watermark < 0:
            return False
        return bool(partition.high_watermark <= self.committed_part.applied_offset)

    def checkpoint_written(self, checkpoint: CheckpointId, now_ms: int) -> None:
        self.committed_part.snapshot_written(now_ms)

    def checkpoint_found_no_room(self, now_ms: int) -> None:
        self.committed_part.snapshot_found_no_room(now_ms)

    def has_no_room(self, error: OSError, now_ms: int) -> None:
        logger.warning("the disk of Guardian's log is full: nothing is written before there is room")

    def has_room(self, now_ms: int) -> None:
        logger.info("there is room again for Guardian's log")

    def performed(self, now_ms: int) -> None:
        if self.may_act(now_ms):
            self._fresh_ms = self.wall.elapsed(now_ms)
        super().performed(now_ms)

    def _goes_on_ms(self, now_ms: int) -> int | None:
        return self.committed_part.next_deadline_ms(now_ms)

    def _appends(self, size_bytes: int) -> None:
        self.committed_part.appended(size_bytes)

    def _tell_failed(self, error: Exception, now_ms: int) -> None:
        self._observer.log_failed(error)

    def bug(self, what: str, error: Exception) -> None:
        """An error that should never happen was raised."""
        self._observer.bug("metadata", what, error)


def raft_config(settings: GuardianSettings) -> RaftConfig:
    """The times of the quorum. A follower fetches several times within a lease, and neither who has lost the connection
    to its leader nor who has just started stands before one is over.
    """
    lease_ms = settings.lease_ms
    return RaftConfig(
        election_timeout_ms=settings.penstock_guardian_election_timeout_ms,
        fetch_timeout_ms=settings.penstock_guardian_fetch_timeout_ms,
        election_backoff_max_ms=settings.penstock_guardian_election_timeout_ms,
        request_timeout_ms=settings.penstock_guardian_request_timeout_ms,
        retry_backoff_ms=settings.penstock_guardian_retry_backoff_ms,
        fetch_wait_max_ms=max(1, lease_ms // FETCHES_IN_A_LEASE),
        leader_grace_ms=lease_ms + lease_ms // 2,
        start_election_ms=lease_ms,
        lease_ms=lease_ms,
    )
