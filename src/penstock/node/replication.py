"""The replicas of this node and what brings them where the metadata wants them: an object on top of the parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.log.directory import LogDirectory
from penstock.log.events import LogEvent
from penstock.log.manager import LogManager
from penstock.node.assignments import Assignments
from penstock.node.channel import Channel
from penstock.node.followers import Followers
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
        logs: the log directories. replicas: what is led and followed. isr_changes: which in-sync replicas it proposes.
        followers: fetch from leaders. throttles: how fast they and moves may be.
        assignments: tells the controller of directories. moves: between directories.
        publishing: applies new metadata.
    """

    __slots__ = ("assignments", "followers", "isr_changes", "logs", "moves", "publishing", "replicas", "throttles")

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
        self.throttles = ReplicationThrottles(settings)
        self.isr_changes = IsrChanges(
            state.node_id, lambda: state.broker_epoch, channel, scheduler.timers, lag_time_max_ms
        )
        self.replicas: Replicas = Replicas(
            state.node_id,
            lambda: self.logs,
            directory_lost,
            low_watermark_moved,
            self.isr_changes,
            followers=lambda: self.followers,
            broker_epoch=lambda: state.broker_epoch,
            lag_time_max_ms=lag_time_max_ms,
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
