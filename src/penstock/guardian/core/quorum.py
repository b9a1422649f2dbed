"""Guardian's own quorum as a node takes part in it: a replica of raft, its log, and what is committed of it.

`raft.driver` carries out the replica's effects; this module connects it to the node around it, as `node.quorum` does
for the metadata quorum: requests to other nodes, answers to theirs, committed records to the state.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, Protocol

from penstock.config.guardian import LISTENER, GuardianSettings
from penstock.errors import ErrorCode, StorageError
from penstock.guardian.core.committed import Committed
from penstock.guardian.core.identity import GuardianIdentity
from penstock.guardian.core.leader import Leader
from penstock.guardian.core.lease import Lease
from penstock.guardian.core.state import GuardianState
from penstock.log.disk import Disk, Operation
from penstock.node.request import Request
from penstock.protocol.message import Message
from penstock.protocol.messages.fetch_request import FetchRequest
from penstock.raft import effects, messages
from penstock.raft.checkpoint import CheckpointId
from penstock.raft.config import RaftConfig
from penstock.raft.core import Identity
from penstock.raft.driver import Driver, read
from penstock.raft.effects import Answer, Call, Effect, LeaderChanged, Target
from penstock.raft.history import QuorumHistory
from penstock.raft.replica import QuorumDescription, RaftReplica
from penstock.raft.storage import Storage
from penstock.raft.topic import GUARDIAN
from penstock.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from penstock.records.builder import BatchBuilder
from penstock.records.wall import WallTime

HAND_OVER_TIMEOUT_MS = 1_000
"""How long a clean stop waits until others know that this node leads no more."""
FETCHES_IN_A_LEASE = 4
"""How often at least a follower fetches within a lease, also when there is nothing to get."""

logger = logging.getLogger(__name__)


class QuorumObserver(Protocol):
    """The node around the quorum."""

    def quorum_stirred(self) -> None:
        """What the quorum has to do, or when, may have changed."""

    def answer(self, request: Any, message: Message, now_ms: int) -> None:
        """Answers a request that `handle` was given."""

    def log_failed(self, error: Exception) -> None:
        """The log cannot be used any more: the node cannot go on."""

    def bug(self, place: str, what: str, error: Exception) -> None:
        """An error that should never happen was raised."""


class GuardianQuorum:
    """See the module's head.

    Attributes:
        topic: the topic that the log belongs to. committed: what is committed of it. leader: changes, while it leads.
    """

    topic = GUARDIAN

    def __init__(
        self,
        settings: GuardianSettings,
        identity: GuardianIdentity,
        disk: Disk,
        observer: QuorumObserver,
        *,
        call: Callable[[Target, Message, int, Callable[[Message | None, int], None], int], None],
        random: Random,
        nonces: Random,
        wall: WallTime,
    ) -> None:
        """`disk` is the blocking disk of the directory with this identity; `call` is that of `node.quorum_calls`."""
        self.settings = settings
        self.local = ReplicaKey(settings.penstock_guardian_node_id, identity.directory_id)
        self.wall = wall
        self.committed_part = Committed(settings.penstock_guardian_snapshot_bytes, wall)
        self.leader = Leader(self, self.committed_part, random, nonces)
        self.lease = Lease(settings.lease_ms, wall)
        self._guardian_id = identity.guardian_id
        self._disk = disk
        self._observer = observer
        self._call = call
        self._random = random
        self._claiming = False
        self._fresh_ms: int | None = None
        self._stopped: Callable[[int], None] | None = None
        self._stop_deadline_ms: int | None = None
        self._failed = False
        self._foreign: set[Target] = set()
        self._now_ms = 0
        self._driver: Driver

    # What is known

    @property
    def _replica(self) -> RaftReplica:
        return self._driver.replica

    @property
    def state(self) -> GuardianState:
        """What is committed, as far as this node has applied it."""
        return self.committed_part.state

    @property
    def leads(self) -> bool:
        """Whether this node leads and takes changes."""
        return self.leader.active

    @property
    def leader_id(self) -> int | None:
        """The leader, as far as this node knows; itself only while it leads."""
        return self._replica.leader_id

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

    def describe(self) -> QuorumDescription:
        """The quorum's state, for DescribeQuorum."""
        return self._replica.describe()

    # Start

    def start(self, now_ms: int) -> None:
        """Reads the directory and begins to take part; blocks. Raises StorageError, in one line, for a log that is
        damaged, or was written by a newer version.
        """
        self._now_ms = now_ms
        self._driver = Driver(
            self._disk,
            self.settings.node,
            self,
            self._prepare,
            config=raft_config(self.settings),
            randoms=(self._random, self._random),
            wall=self.wall,
            now_ms=now_ms,
            topic=GUARDIAN,
        )
        self._driver.start(now_ms)

    def _prepare(self, storage: Storage) -> tuple[Identity, QuorumHistory]:
        """Loads the newest snapshot; of the log after it nobody knows yet what is committed."""
        voters = VoterSet(
            Voter(ReplicaKey(voter.id), (VoterEndpoint(LISTENER, voter.host, voter.port),))
            for voter in self.settings.node.voters
        )
        history, found, _ = read(storage, voters)
        self.committed_part.open(storage, found)
        return Identity(self.local, cluster_id=self._guardian_id, listener=LISTENER, topic=GUARDIAN), history

    # What is around the replica, see `raft.driver.DriverHost`

    def carries_out(self, effect: Effect) -> None:
        """Ignores the start of an effect: only its end matters here."""

    def control_appended(self, batch: bytearray, last_offset: int, epoch: int, now_ms: int) -> None:
        if self.leads:
            self.leader.control_appended(last_offset, epoch)

    def committed(self, committed: effects.Committed, now_ms: int) -> None:
        self._claiming = self._claiming or committed.first
        self.committed_part.commit(committed.high_watermark)
        self._step(now_ms)

    def _step(self, now_ms: int) -> None:
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

    def call(self, call: Call, now_ms: int) -> None:
        asked_ms = self.wall.elapsed(now_ms) if isinstance(call.request, FetchRequest) else None
        done = partial(self._answered, call.call, call.target, asked_ms)
        self._call(call.target, call.request, call.timeout_ms, done, now_ms)

    def _answered(self, call: int, target: Target, asked_ms: int | None, response: Message | None, now_ms: int) -> None:
        """The end of a call; `asked_ms`, time that the process stood still included, if it fetched."""
        if getattr(response, "error_code", ErrorCode.NONE) == ErrorCode.INCONSISTENT_CLUSTER_ID:
            self._refused_by(target)
        self._driver.answered(call, response, now_ms)
        if asked_ms is not None and target == self.leader_target and self._has_all_of(response):
            self._fresh_ms = max(self._fresh_ms or 0, asked_ms)

    def _has_all_of(self, response: Message | None) -> bool:
        """Whether all that the leader told was committed is applied here: what is still to be fetched, or flushed, is
        not.
        """
        partition = None if response is None else messages.partition_of(response, GUARDIAN)
        if partition is None or partition.error_code or partition.high_watermark < 0:
            return False
        return bool(partition.high_watermark <= self.committed_part.applied_offset)

    def _refused_by(self, target: Target) -> None:
        """Logs, once for each node, that it belongs to another Guardian; it is still asked: that may be corrected."""
        if target not in self._foreign and len(self._foreign) < len(self.settings.node.voters):
            self._foreign.add(target)
            logger.error(
                "%s:%d belongs to another Guardian than this node, whose id is %s: is it meant in "
                "penstock.guardian.voters?",
                target.host,
                target.port,
                self._guardian_id,
            )

    def answer(self, answer: Answer, now_ms: int) -> None:
        self._observer.answer(answer.token, answer.response, now_ms)

    def truncated(self, now_ms: int) -> None:
        """Ignores a truncation: the records that were cut were never committed."""

    def checkpoint_written(self, checkpoint: CheckpointId, now_ms: int) -> None:
        self.committed_part.snapshot_written(now_ms)

    def checkpoint_found_no_room(self, now_ms: int) -> None:
        self.committed_part.snapshot_found_no_room(now_ms)

    def has_no_room(self, error: OSError, now_ms: int) -> None:
        logger.warning("the disk of Guardian's log is full: nothing is written before there is room")

    def has_room(self, now_ms: int) -> None:
        logger.info("there is room again for Guardian's log")

    def failed(self, error: Exception, now_ms: int, *, raised: bool = False) -> None:
        self._fail(error, now_ms)
        if raised and not isinstance(error, StorageError):
            self._observer.bug("metadata", "Guardian's log", error)

    def performed(self, now_ms: int) -> None:
        self._now_ms = now_ms
        if self.may_act(now_ms):
            self._fresh_ms = self.wall.elapsed(now_ms)
        self._observer.quorum_stirred()
        if self._stop_deadline_ms is not None:
            self._close_if_handed_over(now_ms)

    # The log, as its leader uses it

    @property
    def epoch(self) -> int:
        """The newest leader epoch that this node knows."""
        return self._replica.epoch

    @property
    def next_offset(self) -> int:
        return self._driver.storage.end_offset

    @property
    def waits_for_room(self) -> bool:
        return self._driver.storage.no_room.waits

    def check_append(self, size_bytes: int) -> None:
        self._driver.storage.log.check_append(size_bytes)

    def append(self, batch: BatchBuilder, now_ms: int) -> None:
        try:
            built = batch.build()
            self.committed_part.appended(len(built))
            self._driver.append(built, batch.base_offset + batch.record_count, now_ms)
        except Exception as error:  # a bug: what the log holds and what was replayed are not the same any more
            self._fail(error, now_ms)
            raise

    def bug(self, what: str, error: Exception) -> None:
        self._observer.bug("metadata", what, error)

    # Requests, time and the disk

    def handle(self, request: Request[Any], now_ms: int) -> None:
        """Passes a request of another node to the replica, which answers now or later."""
        link = request.connection.id
        self._driver.handle(request.body, request.version, request, now_ms, request.listener, link=link)

    def leader_link_lost(self, now_ms: int) -> None:
        """The connection over which the log is fetched from the leader broke."""
        if not self._driver.closing:
            self._driver.hear(lambda: self._replica.leader_link_lost(now_ms), now_ms)

    def leader_gone(self, now_ms: int) -> None:
        """Nothing listens at the leader's address: its process has ended."""
        if not self._driver.closing:
            self._driver.perform(self._replica.leader_gone(now_ms), now_ms)

    @property
    def has_operations(self) -> bool:
        """Whether `take_operations` may have something to do."""
        return self._driver.storage.has_operations

    def take_operations(self, now_ms: int) -> list[Operation]:
        """The operations to run on the disk, in order; all appends of a turn of the loop go out as one write."""
        return self._driver.storage.take_operations(now_ms)

    def tick(self, now_ms: int) -> None:
        """Called at `next_deadline_ms`."""
        if self._driver.closing:
            return
        self._driver.hear(lambda: self._replica.tick(now_ms), now_ms)
        try:
            self._step(now_ms)
        except StorageError as error:
            self._fail(error, now_ms)

    def next_deadline_ms(self) -> int | None:
        """When `tick` and `take_operations` must be called."""
        deadlines = [self._driver.storage.next_deadline_ms()]
        if not self._driver.closing:
            deadlines += [
                self._replica.next_deadline_ms(),
                self.committed_part.next_deadline_ms(self._now_ms),
                self._stop_deadline_ms,
            ]
        return min((each for each in deadlines if each is not None), default=None)

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
        self._renounce(now_ms)
        self._driver.storage.close(self._stopped, now_ms)

    def _fail(self, error: Exception, now_ms: int) -> None:
        if self._failed:
            return
        self._failed = True
        self._driver.close()
        self._replica.resign(now_ms)
        self._renounce(now_ms)
        self._observer.log_failed(error)


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
