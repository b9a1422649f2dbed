"""The part of a led partition that deals with its followers: who they are, how far, and which of them are in sync.

The high watermark waits for the maximal ISR, and for those who are about to join it. Followers that stay behind for
replica.lag.time.max.ms are proposed to leave the ISR, those that have caught up with the high watermark and with this
leader epoch are proposed to join. `penstock.replication.isr` has what becomes of a proposal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from penstock.errors import ErrorCode
from penstock.log.log import Log
from penstock.replication.isr import ROLLED_BACK, SETTLED_BY_METADATA, PartitionOwner, Proposal
from penstock.replication.remote import UNKNOWN_EPOCH, RemoteReplica

if TYPE_CHECKING:
    from penstock.protocol.messages.alter_partition_response import PartitionData as AlteredPartition
    from penstock.replication.fetch_session import Session
    from penstock.replication.partition import Partition


class FollowedPartition:
    """What looking after followers needs of a partition. `penstock.replication.partition.Partition` documents the
    attributes.
    """

    __slots__ = (
        "_config",
        "_owner",
        "epoch_start_offset",
        "followers",
        "high_watermark",
        "in_sync_replicas",
        "leader_epoch",
        "log",
        "min_in_sync_replicas",
        "node_id",
        "partition_epoch",
        "proposal",
        "replicas",
    )

    log: Log
    node_id: int
    leader_epoch: int
    epoch_start_offset: int
    partition_epoch: int
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]
    min_in_sync_replicas: int
    followers: dict[int, RemoteReplica]
    proposal: Proposal | None
    high_watermark: int
    _owner: PartitionOwner
    _config: object

    @property
    def whole(self) -> Partition:
        """This partition, as its owner knows it."""
        return cast("Partition", self)

    def advance_high_watermark(self, now_ms: int) -> None:
        """Moves the high watermark to where the maximal ISR has everything; never back."""
        raise NotImplementedError

    def _read_config(self) -> None:
        """Takes over what the topic asks now."""
        raise NotImplementedError

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """The in-sync replicas, and those that are being added to them."""
        proposal = self.proposal
        return self.in_sync_replicas if proposal is None else (*self.in_sync_replicas, *proposal.added)

    @property
    def low_watermark(self) -> int:
        """The least log start offset of this leader and of its followers that are alive (KIP-107)."""
        starts = [
            follower.log_start_offset
            for follower in self.followers.values()
            if self._owner.broker_epoch_of(follower.broker_id) is not None
        ]
        return min(self.log.log_start_offset, *starts) if starts else self.log.log_start_offset

    def closest_replica(self, rack: str, rack_of: Callable[[int], str | None], offset: int) -> int:
        """The in-sync replica in a consumer's rack that it should read `offset` from (KIP-392): this leader if it is
        there or nobody else is; else the one that has most.
        """
        if not rack or rack_of(self.node_id) == rack:
            return self.node_id
        near = [
            follower
            for follower in self.followers.values()
            if follower.broker_id in self.in_sync_replicas
            and self._owner.broker_epoch_of(follower.broker_id) is not None
            and follower.log_start_offset <= offset <= follower.log_end_offset
            and rack_of(follower.broker_id) == rack
        ]
        best = max(near, key=lambda each: (each.log_end_offset, -each.broker_id), default=None)
        return self.node_id if best is None else best.broker_id

    def follower_fetched(
        self,
        broker_id: int,
        offset: int,
        log_start_offset: int,
        *,
        broker_epoch: int,
        session: Session | None,
        now_ms: int,
    ) -> ErrorCode:
        """A follower asks for `offset` under our leader epoch, and its log does not diverge: it has all below.

        It may join the ISR by that, and the high watermark may move. NOT_LEADER_OR_FOLLOWER when the fetch is of an
        incarnation of the broker that is past (KIP-903).
        """
        follower = self.followers[broker_id]
        registered = self._owner.broker_epoch_of(broker_id)
        if broker_epoch != UNKNOWN_EPOCH and registered is not None and registered > broker_epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        before, end_offset = follower.log_end_offset, self.log.log_end_offset
        start_before = follower.log_start_offset
        follower.fetched(
            offset,
            log_start_offset,
            leader_end_offset=end_offset,
            broker_epoch=broker_epoch,
            session=session,
            now_ms=now_ms,
        )
        if broker_id not in self.in_sync_replicas:
            self.consider_joining(now_ms)
        if log_start_offset != start_before:
            self._owner.low_watermark_moved(self.whole, now_ms)
        if offset != before or self.high_watermark < end_offset:
            self.advance_high_watermark(now_ms)
        return ErrorCode.NONE

    def consider_joining(self, now_ms: int) -> None:
        """Proposes to add followers to the ISR that have reached the high watermark and the start of this epoch.

        Called when one has fetched, and when something else that may have kept it out has changed: its next fetch does
        not mention a partition in which it has everything.

        One that had not reached the start of the epoch could lack records which the last leader had committed, and the
        high watermark that we took over does not tell of yet.
        """
        if self.proposal is not None:
            return
        least_offset = max(self.high_watermark, self.epoch_start_offset)
        joining = tuple(
            follower.broker_id
            for follower in self.followers.values()
            if follower.broker_id not in self.in_sync_replicas
            and follower.log_end_offset >= least_offset
            and self._owner.may_join(follower.broker_id, follower.broker_epoch)
        )
        if joining:
            self._propose((*self.in_sync_replicas, *joining), now_ms, added=joining)

    def look_after_followers(self, now_ms: int) -> bool:
        """Proposes to drop in-sync followers that are behind for too long, and to add those that nothing keeps out any
        more; the high watermark goes on without those who will not join any time soon.

        Gives whether any follower has to be looked after further: one that is behind, or not in sync.
        """
        self.consider_joining(now_ms)
        end_offset, lag_time_max_ms = self.log.log_end_offset, self._owner.lag_time_max_ms
        behind = [
            follower
            for follower in self.followers.values()
            if follower.broker_id in self.in_sync_replicas and follower.log_end_offset != end_offset
        ]
        lost = tuple(each.broker_id for each in behind if not each.is_caught_up(end_offset, now_ms, lag_time_max_ms))
        if lost and self.proposal is None:
            isr = tuple(broker_id for broker_id in self.in_sync_replicas if broker_id not in lost)
            self._propose(isr, now_ms, removed=lost)
        self.advance_high_watermark(now_ms)
        return bool(behind) or len(self.in_sync_replicas) < len(self.replicas)

    def _propose(
        self, isr: tuple[int, ...], now_ms: int, *, added: tuple[int, ...] = (), removed: tuple[int, ...] = ()
    ) -> None:
        with_epochs = tuple((broker_id, self._broker_epoch(broker_id)) for broker_id in isr)
        self.proposal = Proposal(with_epochs, self.leader_epoch, self.partition_epoch, added, removed)
        self._owner.isr_proposed(self.whole, now_ms)

    def _broker_epoch(self, broker_id: int) -> int:
        if broker_id == self.node_id:
            return self._owner.broker_epoch
        follower = self.followers.get(broker_id)
        known = follower.broker_epoch if follower is not None else None
        return UNKNOWN_EPOCH if known is None else known

    def alter_answered(self, proposal: Proposal, answer: ErrorCode | AlteredPartition, now_ms: int) -> bool:
        """The controller's answer to a proposal: the partition's state as altered, or an error. True: ask again.

        An answer to a proposal that the metadata has overtaken is ignored.
        """
        if self.proposal is not proposal:
            return False
        if isinstance(answer, ErrorCode):
            if answer in ROLLED_BACK:
                self.proposal = None
                self._owner.lags(self.whole, now_ms)
                self.advance_high_watermark(now_ms)
                return False
            return answer not in SETTLED_BY_METADATA
        if answer.leader_epoch != self.leader_epoch or answer.partition_epoch < self.partition_epoch:
            return False
        self.proposal = None
        self.in_sync_replicas = tuple(answer.isr)
        self.partition_epoch = answer.partition_epoch
        self._owner.isr_changed(self.whole, proposal)
        self.advance_high_watermark(now_ms)
        self.consider_joining(now_ms)
        return False

    def _know_followers(self, now_ms: int) -> None:
        """Forgets all that was known of followers: another leader may have had them cut their logs meanwhile."""
        self.followers = {
            broker_id: RemoteReplica(broker_id, in_sync=broker_id in self.in_sync_replicas, now_ms=now_ms)
            for broker_id in self.replicas
            if broker_id != self.node_id
        }
        self.min_in_sync_replicas = min(self.log.config.min_insync_replicas, len(self.replicas))
        if self.followers:
            self._owner.lags(self.whole, now_ms)

    def _assign(self, replicas: tuple[int, ...], now_ms: int) -> None:
        """Other replicas under the same leader epoch: those that stay are known."""
        known = self.followers
        self.replicas = replicas
        self._know_followers(now_ms)
        for broker_id in self.followers:
            if broker_id in known:
                self.followers[broker_id] = known[broker_id]

    def _replicated_offset(self, now_ms: int) -> int:
        """What the maximal ISR has, and those who are about to join it: if the high watermark ran away from them, they
        never would. The present high watermark when there are too few in sync (KIP-966)."""
        if self.log.config is not self._config:
            self._read_config()
        if len(self.in_sync_replicas) < self.min_in_sync_replicas:
            return self.high_watermark
        owner = self._owner
        offset = end_offset = self.log.log_end_offset
        maximal_isr = self.maximal_isr
        for broker_id, follower in self.followers.items():
            if follower.log_end_offset < offset and (
                broker_id in maximal_isr
                or (
                    follower.is_caught_up(end_offset, now_ms, owner.lag_time_max_ms)
                    and owner.may_join(broker_id, follower.broker_epoch)
                )
            ):
                offset = follower.log_end_offset
        return offset
