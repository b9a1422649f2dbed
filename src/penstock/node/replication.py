"""The replicas of this node, and the parts that bring them into the state that the metadata asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.errors import ErrorCode, PenstockError, RequestError, StorageError
from penstock.log.damaged_index import DamagedFileError
from penstock.log.directory import LogDirectory
from penstock.log.events import LogEvent
from penstock.log.manager import LogManager
from penstock.node.assignments import Assignments
from penstock.node.channel import Channel
from penstock.node.followers import Followers
from penstock.node.hanging import HangingTransactions
from penstock.node.isr_changes import IsrChanges
from penstock.node.moves import Moves
from penstock.node.outgoing import Outgoing
from penstock.node.publishing import Publishing
from penstock.node.scheduler import Scheduler
from penstock.node.state import NodeState
from penstock.node.throttles import ReplicationThrottles
from penstock.replication.partition import Partition
from penstock.replication.replicas import Replicas


class Replication:
    """See the module's head.

    Attributes:
        logs: the log directories. replicas: led and followed partitions. isr_changes: proposes ISR changes.
        followers: fetch from leaders. throttles: limit the rates of followers and moves.
        assignments: tells the controller of directories. moves: between directories.
        publishing: applies new metadata. hanging: finds transactions that nobody will end.
    """

    def __init__(
        self,
        state: NodeState,
        scheduler: Scheduler,
        outgoing: Outgoing,
        channel: Channel,
        directories: Sequence[LogDirectory],
        *,
        report: Callable[[LogEvent], None],
        low_watermark_moved: Callable[[Partition, int], None],
        directory_lost: Callable[[int, OSError, int], None],
    ) -> None:
        settings = state.settings
        lag_time_max_ms = settings.replica_lag_time_max_ms
        self._scheduler = scheduler
        self.throttles = ReplicationThrottles(settings)
        self.isr_changes = IsrChanges(
            state.node_id, lambda: state.broker_epoch, channel, scheduler.timers, lag_time_max_ms
        )
        self.hanging = HangingTransactions(state, scheduler, outgoing, lambda: self.replicas)
        self.replicas: Replicas = Replicas(
            state.node_id,
            lambda: self.logs,
            directory_lost,
            low_watermark_moved,
            self.isr_changes,
            followers=lambda: self.followers,
            broker_epoch=lambda: state.broker_epoch,
            lag_time_max_ms=lag_time_max_ms,
            transaction_open=self.hanging.noticed,
        )
        self.followers = Followers(state, scheduler, self.replicas, outgoing, self.throttles)
        self.logs = LogManager(
            settings,
            directories,
            topic_config=state.topic_config,
            random=scheduler.random,
            report=report,
            listener=self.replicas,
            wall=scheduler.wall,
            bug=scheduler.bugs.of("operation"),
            wake_by=scheduler.wake_by,
        )
        self.assignments = Assignments(state, scheduler, self.logs, channel, self.replicas)
        self.moves = Moves(
            state, scheduler, self.logs, self.replicas, throttles=self.throttles, assignments=self.assignments
        )
        self.publishing = Publishing(
            state,
            scheduler,
            self.logs,
            self.replicas,
            throttles=self.throttles,
            assignments=self.assignments,
            moves=self.moves,
        )

    def partition_error(self, what: str, topic: str, index: int, error: Exception, now_ms: int) -> ErrorCode:
        """The error code for one partition of a request where `what` raised `error`; its other partitions go on.

        Damage and bugs are logged, rate-limited. An error of the file system takes the partition's directory offline.
        """
        name = f"{what} of {topic}-{index}"
        if isinstance(error, StorageError | RequestError) and not isinstance(error, DamagedFileError):
            return error.code
        if isinstance(error, PenstockError):
            self._scheduler.bugs.damage(name, error)
            return error.code
        if isinstance(error, OSError):
            self.logs.read_failed(self.logs.directory_of(topic, index).index, error, now_ms)
            return ErrorCode.KAFKA_STORAGE_ERROR
        self._scheduler.bug("request", name, error)
        return ErrorCode.UNKNOWN_SERVER_ERROR
