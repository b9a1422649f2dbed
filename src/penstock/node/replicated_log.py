"""The log of a quorum as a node takes part in it, without what the log is about: a replica of raft, and its storage.

`raft.driver` carries out the replica's effects; this class connects it to the node around it: requests to other nodes,
answers to theirs, the disk, time, a clean stop. The state machine is added by who derives from it: `node.quorum` for
the cluster's metadata, `guardian.core.quorum` for Guardian.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, ClassVar, Protocol

from penstock.config.server import Settings
from penstock.errors import ErrorCode, StorageError
from penstock.log.disk import Disk, Operation
from penstock.node.request import Request
from penstock.protocol.message import Message
from penstock.raft.checkpoint import CheckpointId
from penstock.raft.config import RaftConfig
from penstock.raft.core import Identity
from penstock.raft.driver import Driver
from penstock.raft.effects import Answer, Call, Committed, Effect, LeaderChanged, Target
from penstock.raft.history import QuorumHistory
from penstock.raft.limits import RAFT_VOTERS_MAX
from penstock.raft.replica import QuorumDescription, RaftReplica
from penstock.raft.storage import Storage
from penstock.raft.topic import QuorumTopic
from penstock.raft.voters import ReplicaKey
from penstock.records.builder import BatchBuilder
from penstock.records.wall import WallTime

HAND_OVER_TIMEOUT_MS = 1_000
"""How long a clean stop waits until others know that this node leads no more."""

logger = logging.getLogger(__name__)

Send = Callable[[Target, Message, int, Callable[[Message | None, int], None], int], None]
"""`QuorumCalls.call`: sends a request to another node of the quorum."""


class LogObserver(Protocol):
    """The node around the log."""

    def quorum_stirred(self) -> None:
        """What the quorum has to do, or when, may have changed."""

    def answer(self, request: Any, message: Message, now_ms: int) -> None:
        """Answers a request that `handle` was given."""

    def bug(self, place: str, what: str, error: Exception) -> None:
        """An error that should never happen was raised."""


class ReplicatedLog(ABC):
    """See the module's head. It is the `raft.driver.DriverHost` of its replica.

    Attributes:
        topic: the topic that the log belongs to. local: this replica's key.
        wall: the time that records are stamped with.
        log_name: for people. foreign: what is logged of a node with another id: its host and port, this node's id.
        refusals: errors that a damaged or newer log may lead to; any other is a bug.
    """

    topic: ClassVar[QuorumTopic]
    log_name: ClassVar[str]
    foreign: ClassVar[str]
    refusals: ClassVar[tuple[type[Exception], ...]] = (StorageError,)

    def __init__(
        self,
        local: ReplicaKey,
        disk: Disk,
        observer: LogObserver,
        *,
        call: Send,
        cluster_id: str | None,
        random: Random,
        wall: WallTime,
    ) -> None:
        """`disk` is the blocking disk of the directory with this replica's id; `cluster_id` is sent to other nodes."""
        self.local = local
        self.wall = wall
        self._cluster_id = cluster_id
        self._disk = disk
        self._observer = observer
        self._call = call
        self._random = random
        self._stopped: Callable[[int], None] | None = None
        self._stop_deadline_ms: int | None = None
        self._failed = False
        self._foreign: set[Target] = set()
        self._now_ms = 0
        self._driver: Driver

    # What who derives from it adds

    @property
    @abstractmethod
    def leads(self) -> bool:
        """Whether this node leads, and has applied everything that is committed."""

    @abstractmethod
    def committed(self, committed: Committed, now_ms: int) -> None:
        """Everything below an offset is committed, and may be applied."""

    @abstractmethod
    def control_appended(self, batch: bytearray, last_offset: int, epoch: int, now_ms: int) -> None:
        """A control batch goes into the log of this leader; it holds nothing for the state machine."""

    @abstractmethod
    def load_snapshot(self, snapshot: CheckpointId, now_ms: int) -> None:
        """A snapshot takes the place of everything before its end."""

    @abstractmethod
    def leader_changed(self, changed: LeaderChanged, now_ms: int) -> None: ...

    @abstractmethod
    def checkpoint_written(self, checkpoint: CheckpointId, now_ms: int) -> None:
        """A snapshot of the state machine's own is complete and durable."""

    @abstractmethod
    def checkpoint_found_no_room(self, now_ms: int) -> None:
        """A snapshot of the state machine's own was not written, since there is no room for it."""

    @abstractmethod
    def has_no_room(self, error: OSError, now_ms: int) -> None:
        """The disk is full: what was appended is neither written nor committed before there is room."""

    @abstractmethod
    def has_room(self, now_ms: int) -> None:
        """What waited for room is written."""

    @abstractmethod
    def _goes_on(self, now_ms: int) -> None:
        """Time has passed: what is committed is applied, in steps. May raise one of `refusals`."""

    @abstractmethod
    def _goes_on_ms(self, now_ms: int) -> int | None:
        """When `_goes_on` must be called."""

    @abstractmethod
    def _appends(self, size_bytes: int) -> None:
        """This node, as the leader, appends so much."""

    @abstractmethod
    def _renounce(self, now_ms: int) -> None:
        """This node leads no more, if it did: what is not committed is undone."""

    @abstractmethod
    def _tell_failed(self, error: Exception, now_ms: int) -> None:
        """Tells the node that the log cannot be used any more."""

    # What is known

    @property
    def _replica(self) -> RaftReplica:
        return self._driver.replica

    @property
    def epoch(self) -> int:
        """The newest leader epoch that this node knows."""
        return self._replica.epoch

    @property
    def leader_id(self) -> int | None:
        """The leader, as far as this node knows."""
        return self._replica.leader_id

    def describe(self) -> QuorumDescription:
        """The quorum's state, for DescribeQuorum."""
        return self._replica.describe()

    # The start

    def _start(
        self,
        settings: Settings,
        config: RaftConfig,
        prepare: Callable[[Storage], tuple[Identity, QuorumHistory]],
        now_ms: int,
    ) -> None:
        """Opens the files, and begins to take part; blocks. Raises StorageError, and whatever `prepare` does."""
        self._now_ms = now_ms
        self._driver = Driver(
            self._disk,
            settings,
            self,
            prepare,
            config=config,
            randoms=(self._random, self._random),
            wall=self.wall,
            now_ms=now_ms,
            topic=self.topic,
        )
        self._driver.start(now_ms)

    # What is around the replica, see `raft.driver.DriverHost`

    def carries_out(self, effect: Effect) -> None:  # noqa: B027 - nobody needs it
        """Ignores the start of an effect: only its end matters here."""

    def truncated(self, now_ms: int) -> None:  # noqa: B027 - nobody needs it
        """Ignores a truncation: the records that were cut were never committed."""

    def call(self, call: Call, now_ms: int) -> None:
        done = partial(self._answered, call, self.wall.elapsed(now_ms))
        self._call(call.target, call.request, call.timeout_ms, done, now_ms)

    def _answered(self, call: Call, asked_ms: int, response: Message | None, now_ms: int) -> None:
        """The end of a call that was made at `asked_ms`, time that the process stood still included."""
        if getattr(response, "error_code", ErrorCode.NONE) == ErrorCode.INCONSISTENT_CLUSTER_ID:
            self._refused_by(call.target)
        self._driver.answered(call.call, response, now_ms)

    def _refused_by(self, target: Target) -> None:
        """Logs, once for each node, that it belongs elsewhere; it is still asked: that may be corrected."""
        if target not in self._foreign and len(self._foreign) < RAFT_VOTERS_MAX:
            self._foreign.add(target)
            logger.error(self.foreign, target.host, target.port, self._cluster_id)

    def answer(self, answer: Answer, now_ms: int) -> None:
        self._observer.answer(answer.token, answer.response, now_ms)

    def failed(self, error: Exception, now_ms: int, *, raised: bool = False) -> None:
        """Undoes what is not committed; this node takes no further part in the quorum."""
        self._fail(error, now_ms)
        if raised and not isinstance(error, self.refusals):
            self._observer.bug("metadata", self.log_name, error)

    def performed(self, now_ms: int) -> None:
        self._now_ms = now_ms
        self._observer.quorum_stirred()
        if self._stop_deadline_ms is not None:
            self._close_if_handed_over(now_ms)

    # The log, as its leader uses it

    @property
    def next_offset(self) -> int:
        """The offset of the record that is appended next."""
        return self._driver.storage.end_offset

    @property
    def waits_for_room(self) -> bool:
        """Whether the log's disk is full, so that nothing is committed by this node before there is room."""
        return self._driver.storage.no_room.waits

    def check_append(self, size_bytes: int) -> None:
        """Raises RequestError or StorageError if the log would refuse a batch of this size: it must not be replayed."""
        self._driver.storage.log.check_append(size_bytes)

    def append(self, batch: BatchBuilder, now_ms: int) -> None:
        """Appends a batch that begins at `next_offset`, as the leader, who has replayed it."""
        assert self.leads, "only the leader appends"
        try:
            built = batch.build()
            self._appends(len(built))
            self._driver.append(built, batch.base_offset + batch.record_count, now_ms)
        except Exception as error:  # a bug: what the log holds and what was replayed are not the same any more
            self._fail(error, now_ms)
            raise

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
        """The operations to run on the log's disk, in order; call it once at the end of every turn of the loop.

        All appends of the turn go out as one write and one fsync.
        """
        return self._driver.storage.take_operations(now_ms)

    def tick(self, now_ms: int) -> None:
        """Called at `next_deadline_ms`."""
        if self._driver.closing:
            return
        self._driver.hear(lambda: self._replica.tick(now_ms), now_ms)
        try:
            self._goes_on(now_ms)
        except self.refusals as error:
            self._fail(error, now_ms)

    def next_deadline_ms(self) -> int | None:
        """When `tick` and `take_operations` must be called."""
        soonest = self._driver.storage.next_deadline_ms()
        if self._driver.closing:
            return soonest
        for deadline in (
            self._replica.next_deadline_ms(),
            self._goes_on_ms(self._now_ms),
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
        self._renounce(now_ms)
        self._driver.storage.close(self._stopped, now_ms)

    def _fail(self, error: Exception, now_ms: int) -> None:
        if self._failed:
            return
        self._failed = True
        self._driver.close()
        self._replica.resign(now_ms)
        self._renounce(now_ms)
        self._tell_failed(error, now_ms)
