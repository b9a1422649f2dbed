"""Which replicas of a led partition are in sync (ISR), and how far the high watermark may go, within one leader epoch.

`InSyncReplicas` only decides: it returns the `Proposal` to make or the offset to go to, and the partition that owns it
acts. The leader proposes, the controller decides (AlterPartition, KIP-497, KIP-903), and in between there is the
*maximal* ISR: the committed one, and those being added. The high watermark waits for the whole maximal ISR, so whatever
the controller decides, every replica that may be elected has everything below it. It also waits for those about to
join. One proposal is under way at a time.

The answer to a proposal does not come through the metadata log, and may be ahead of it. The controller decided by the
min.insync.replicas of its own state: a replica that left the ISR below that minimum may be elected (KIP-966). So after
an accepted departure the high watermark stands still until our metadata has reached it, and thereby that minimum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from penstock.errors import ErrorCode
from penstock.replication.remote import UNKNOWN_EPOCH, RemoteReplica

if TYPE_CHECKING:
    from penstock.protocol.messages.alter_partition_response import PartitionData as AlteredPartition

NOBODY_DEPARTED = -1

ROLLED_BACK = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})
"""The controller says that it knows the present state of the partition and has not changed it, so the committed ISR
holds, as in Kafka (`Partition.handleAlterPartitionError`).

One thing neither excludes: the request was sent twice, the answer to the first was lost, and that first copy arrives
late, when the broker that it adds is eligible again in the same incarnation. Then the controller has one in sync that
the high watermark did not wait for meanwhile; it does from the moment that the metadata tells. To wait for that one all
the time would be worse: it is mostly one that has died, and nothing would be acknowledged until it is back."""

LEFT_TO_METADATA = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
"""The leader's view is behind, or the change was made and more with it: the proposal stays (and with it the maximal
ISR) until the metadata log says what became of the partition. Every other error is tried again."""


@dataclass(frozen=True, slots=True, eq=False)
class Proposal:
    """The ISR that a leader asks for.

    Attributes:
        isr: (broker id, broker epoch) of all; epoch -1 for one that this leader has not heard of, which the controller
            then does not check.
        leader_epoch, partition_epoch: of the state that it changes; the controller refuses it if that is past.
        added, removed: broker ids; one of the two is empty.
    """

    isr: tuple[tuple[int, int], ...]
    leader_epoch: int
    partition_epoch: int
    added: tuple[int, ...] = ()
    removed: tuple[int, ...] = ()


class Verdict(Enum):
    """The controller's verdict on a proposal."""

    ACCEPTED = "accepted"
    ROLLED_BACK = "rolled back"
    RETRY = "retry"
    NOTHING = "nothing"
    """The metadata has overtaken it, or will tell what became of it."""


class KnownBrokers(Protocol):
    """The known facts about the brokers that may be in sync."""

    @property
    def lag_time_max_ms(self) -> int:
        """replica.lag.time.max.ms."""

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's own registration."""

    def broker_epoch_of(self, broker_id: int) -> int | None:
        """The epoch of another broker's registration; None if it is not registered or fenced."""

    def may_join(self, broker_id: int, broker_epoch: int | None) -> bool:
        """Whether a follower may be in sync: its broker is neither fenced nor on its way out, and the incarnation that
        fetches is the registered one."""


class InSyncReplicas:
    """See the module's head. A new leader epoch begins with a new one: another leader may have had followers cut their
    logs meanwhile, so nothing that was known of them holds.

    Attributes:
        leader_epoch, epoch_start_offset: of the leadership, and where in the log it began.
        partition_epoch: counts the changes of the partition's state in the metadata.
        departed_at_epoch: the partition epoch at which the controller took replicas out of the ISR, as it has answered
            and our metadata does not tell yet; else NOBODY_DEPARTED.
        replicas, committed: ids of all brokers with a replica and of those in sync, the leader included; as committed
            by the controller.
        minimum: how many must be in sync: min.insync.replicas, but not more than there are replicas.
        followers: the replicas but the leader, by broker id; empty with one replica.
        proposal: the change that the controller has been asked for, and has not decided.
    """

    __slots__ = (
        "_brokers",
        "_node_id",
        "committed",
        "departed_at_epoch",
        "epoch_start_offset",
        "followers",
        "leader_epoch",
        "minimum",
        "partition_epoch",
        "proposal",
        "replicas",
    )

    def __init__(
        self,
        node_id: int,
        brokers: KnownBrokers,
        *,
        leader_epoch: int,
        epoch_start_offset: int,
        partition_epoch: int,
        replicas: tuple[int, ...],
        committed: tuple[int, ...],
        now_ms: int,
    ) -> None:
        self._node_id = node_id
        self._brokers = brokers
        self.leader_epoch = leader_epoch
        self.epoch_start_offset = epoch_start_offset
        self.partition_epoch = partition_epoch
        self.departed_at_epoch = NOBODY_DEPARTED
        self.replicas = replicas
        self.committed = committed
        self.minimum = 1
        self.proposal: Proposal | None = None
        self.followers: dict[int, RemoteReplica] = {}
        self._know_followers(now_ms)

    @property
    def maximal(self) -> tuple[int, ...]:
        """The in-sync replicas, and those that are being added to them."""
        proposal = self.proposal
        return self.committed if proposal is None else (*self.committed, *proposal.added)

    def require(self, min_insync_replicas: int) -> None:
        """Sets the topic's min.insync.replicas."""
        self.minimum = min(min_insync_replicas, len(self.replicas))

    # Decisions

    def expand(self, high_watermark: int) -> Proposal | None:
        """Adds followers to the ISR that have reached the high watermark and the start of this epoch.

        One before the start of the epoch could lack records which the last leader had committed, unknown to the high
        watermark that we took over. While the high watermark waits for the metadata of a departure nobody joins, since
        the follower that was just removed has reached it.
        """
        if self.proposal is not None or self.departed_at_epoch != NOBODY_DEPARTED:
            return None
        least_offset = max(high_watermark, self.epoch_start_offset)
        joining = tuple(
            follower.broker_id
            for follower in self.followers.values()
            if follower.broker_id not in self.committed
            and follower.log_end_offset >= least_offset
            and self._brokers.may_join(follower.broker_id, follower.broker_epoch)
        )
        return self._propose((*self.committed, *joining), added=joining) if joining else None

    def shrink(self, end_offset: int, now_ms: int) -> Proposal | None:
        """The ISR shrinks: removes followers that have been behind the leader's end for replica.lag.time.max.ms."""
        if self.proposal is not None:
            return None
        lag_time_max_ms = self._brokers.lag_time_max_ms
        lost = tuple(
            follower.broker_id
            for follower in self._behind(end_offset)
            if not follower.is_caught_up(end_offset, now_ms, lag_time_max_ms)
        )
        isr = tuple(broker_id for broker_id in self.committed if broker_id not in lost)
        return self._propose(isr, removed=lost) if lost else None

    def lags(self, end_offset: int) -> bool:
        """Whether any follower must be watched: one that is behind, or not in sync."""
        return bool(self._behind(end_offset)) or len(self.committed) < len(self.replicas)

    def high_watermark_to(self, high_watermark: int, end_offset: int, now_ms: int) -> int:
        """Where the high watermark may go: what the maximal ISR has, and those about to join it (which would otherwise
        never catch up with it).

        It stays where it is if too few are in sync (KIP-966), or may be: see the module's head.
        """
        if self.departed_at_epoch != NOBODY_DEPARTED or len(self.committed) < self.minimum:
            return high_watermark
        brokers = self._brokers
        offset = end_offset
        maximal = self.maximal
        for broker_id, follower in self.followers.items():
            if follower.log_end_offset < offset and (
                broker_id in maximal
                or (
                    follower.is_caught_up(end_offset, now_ms, brokers.lag_time_max_ms)
                    and brokers.may_join(broker_id, follower.broker_epoch)
                )
            ):
                offset = follower.log_end_offset
        return offset

    def closest(self, rack: str, rack_of: Callable[[int], str | None], offset: int) -> int:
        """The in-sync replica in a consumer's rack that it should read `offset` from (KIP-392): the leader if it is
        there or nobody else is; else the one that has most.
        """
        if not rack or rack_of(self._node_id) == rack:
            return self._node_id
        near = [
            follower
            for follower in self.followers.values()
            if follower.broker_id in self.committed
            and self._brokers.broker_epoch_of(follower.broker_id) is not None
            and follower.log_start_offset <= offset <= follower.log_end_offset
            and rack_of(follower.broker_id) == rack
        ]
        best = max(near, key=lambda each: (each.log_end_offset, -each.broker_id), default=None)
        return self._node_id if best is None else best.broker_id

    def _behind(self, end_offset: int) -> list[RemoteReplica]:
        """The in-sync followers that do not have everything."""
        followers = self.followers.values()
        return [each for each in followers if each.broker_id in self.committed and each.log_end_offset != end_offset]

    def _propose(self, isr: tuple[int, ...], *, added: tuple[int, ...] = (), removed: tuple[int, ...] = ()) -> Proposal:
        with_epochs = tuple((broker_id, self._broker_epoch(broker_id)) for broker_id in isr)
        self.proposal = Proposal(with_epochs, self.leader_epoch, self.partition_epoch, added, removed)
        return self.proposal

    def _broker_epoch(self, broker_id: int) -> int:
        if broker_id == self._node_id:
            return self._brokers.broker_epoch
        follower = self.followers.get(broker_id)
        known = follower.broker_epoch if follower is not None else None
        return UNKNOWN_EPOCH if known is None else known

    # What the controller says

    def answered(self, proposal: Proposal, answer: ErrorCode | AlteredPartition) -> Verdict:
        """The controller's answer to a proposal: the partition's state as altered, or an error."""
        if self.proposal is not proposal:
            return Verdict.NOTHING
        if isinstance(answer, ErrorCode):
            if answer in ROLLED_BACK:
                self.proposal = None
                return Verdict.ROLLED_BACK
            return Verdict.NOTHING if answer in LEFT_TO_METADATA else Verdict.RETRY
        if answer.leader_epoch != self.leader_epoch or answer.partition_epoch < self.partition_epoch:
            return Verdict.NOTHING
        self.proposal = None
        if not set(self.committed) <= set(answer.isr):
            self.departed_at_epoch = answer.partition_epoch
        self.committed = tuple(answer.isr)
        self.partition_epoch = answer.partition_epoch
        return Verdict.ACCEPTED

    def metadata_reached(self, partition_epoch: int) -> None:
        """The metadata has reached a state of the partition, and the minimum that applied to departures before it."""
        if partition_epoch >= self.departed_at_epoch:
            self.departed_at_epoch = NOBODY_DEPARTED

    def change(self, partition_epoch: int, replicas: tuple[int, ...], committed: tuple[int, ...], now_ms: int) -> None:
        """Applies a new state from the metadata, in the same leader epoch. Facts about remaining replicas stay."""
        self.partition_epoch = partition_epoch
        self.proposal = None
        self.committed = committed
        if replicas != self.replicas:
            self.replicas = replicas
            self._know_followers(now_ms)

    def clear(self) -> None:
        """Forgets all followers when the leadership ends."""
        self.proposal = None
        self.followers = {}

    def _know_followers(self, now_ms: int) -> None:
        known = self.followers
        self.followers = {
            broker_id: known.get(broker_id)
            or RemoteReplica(broker_id, in_sync=broker_id in self.committed, now_ms=now_ms)
            for broker_id in self.replicas
            if broker_id != self._node_id
        }
