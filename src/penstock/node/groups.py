"""The group coordinator of a node: what groups need in addition to `coordinator`.

Groups follow the metadata: topics that their members subscribe to may have changed, and offsets of deleted topics are
removed. Source: GroupCoordinatorService of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from penstock.coordinator.group.consumer.pace import SettlingPace
from penstock.coordinator.group.machine import GroupMachine
from penstock.coordinator.group.maintenance import delete_topics
from penstock.coordinator.group.settings import GroupSettings
from penstock.coordinator.group.state import GroupState
from penstock.coordinator.limits import COORDINATOR_TIMER_RETRY_MS
from penstock.coordinator.runtime.shard import Shard, ShardState
from penstock.coordinator.runtime.timers import ShardTimers
from penstock.coordinator.runtime.transactions import TransactionEnd
from penstock.errors import ErrorCode
from penstock.node.coordinator import Coordinator, KeyType
from penstock.node.coordinator_host import CoordinatorHost
from penstock.node.coordinator_topic import TopicSpec
from penstock.node.metrics import Sample
from penstock.node.samples import group_samples
from penstock.security.rights import DESCRIBE_GROUP, Right

if TYPE_CHECKING:
    from penstock.config.server import Settings
    from penstock.metadata.delta import MetadataDelta

OFFSETS_TOPIC = "__consumer_offsets"

Groups = Coordinator[GroupMachine]

NOT_READY = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR
)  # fmt: skip
"""What the coordinator of a transaction is told as NOT_LEADER_OR_FOLLOWER: it knows leaders, and asks again."""


def offsets_topic(settings: Settings) -> TopicSpec:
    """How `__consumer_offsets` is created."""
    return TopicSpec(
        OFFSETS_TOPIC,
        "groups",
        settings.offsets_topic_num_partitions,
        settings.offsets_topic_replication_factor,
        "offsets.topic.replication.factor",
        {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(settings.offsets_topic_segment_bytes),
        },
    )


def complete_transaction(
    groups: Groups, index: int, end: TransactionEnd, done: Callable[[ErrorCode, int], None], now_ms: int
) -> None:
    """Ends a transaction in a partition of `__consumer_offsets` (WriteTxnMarkers): its offsets count from now on, or
    are dropped.

    `done(code, now_ms)` is called once, maybe before this returns: with NONE when the marker is replicated, or with the
    error for the transaction's coordinator.
    """

    def written(_: object, code: ErrorCode, message: str, at_ms: int) -> None:
        done(ErrorCode.NOT_LEADER_OR_FOLLOWER if code in NOT_READY else code, at_ms)

    groups.runtime.end_transaction(index, end, written, now_ms)


class GroupService:
    """See the module's head."""

    name = package = "group"
    key_type: KeyType | None = KeyType.GROUP
    right: Right | None = DESCRIBE_GROUP

    def __init__(self, host: CoordinatorHost) -> None:
        self._state = state = host.state
        self._scheduler = host.scheduler
        self._replicas = host.replicas
        self._logs = host.logs
        self._settings = GroupSettings(lambda: state.settings)
        self._pace = SettlingPace()
        self._deleted: dict[int, list[tuple[str, UUID]]] = {}
        self.spec = offsets_topic(state.settings)
        self.write_timeout_ms = state.settings.offsets_commit_timeout_ms
        self.linger_ms = state.settings.group_coordinator_append_linger_ms

    def machine(self, index: int, timers: ShardTimers) -> GroupMachine:
        """The groups of a partition, with the present metadata; deletions until they are loaded are remembered."""
        scheduler = self._scheduler
        self._deleted.pop(index, None)
        state = GroupState(
            timers,
            settings=self._settings,
            random=scheduler.random,
            image=self._state.image,
            wall=scheduler.wall,
            pace=self._pace,
        )
        return GroupMachine(state)

    def published(self, groups: Groups, shard: Shard[GroupMachine], delta: MetadataDelta, now_ms: int) -> None:
        """Tells groups about changed metadata, and deletes the offsets of deleted topics."""
        deleted = [(gone.name, gone.id) for gone in delta.deleted_topics.values()]
        if shard.state is ShardState.LOADING:
            self._deleted.setdefault(shard.index, []).extend(deleted)
            return
        try:
            shard.machine.image_changed(self._state.image, delta, now_ms)
        finally:
            self._delete_offsets(groups, shard.index, deleted, now_ms)

    def loaded(self, groups: Groups, shard: Shard[GroupMachine], now_ms: int) -> None:
        """Tells a shard what has changed since the image from before it was loaded."""
        deleted = self._deleted.pop(shard.index, [])
        if shard.machine.state.image is not self._state.image:
            shard.machine.image_changed(self._state.image, None, now_ms)
            self._delete_offsets(groups, shard.index, deleted, now_ms)

    def _delete_offsets(self, groups: Groups, index: int, topics: Sequence[tuple[str, UUID]], now_ms: int) -> None:
        """Removes all offsets of deleted topics: a new topic of the same name must not inherit them."""

        def done(is_more: bool | None, code: ErrorCode, message: str, at_ms: int) -> None:
            if code is not ErrorCode.NOT_COORDINATOR and (code or is_more):
                delay_ms = COORDINATOR_TIMER_RETRY_MS if code else 0
                again = partial(self._delete_offsets, groups, index, topics)
                self._scheduler.timers.at(at_ms + delay_ms, again, duty=True)

        if topics:
            groups.runtime.write(index, lambda machine: delete_topics(machine.state, topics, now_ms), done, now_ms)

    def samples(self, groups: Groups) -> Iterator[Sample | None]:
        """The metrics of groups."""
        return group_samples(groups.runtime, self._replicas, self._logs)
