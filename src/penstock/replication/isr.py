"""A change of the in-sync replicas on its way to the controller (AlterPartition, KIP-497, KIP-903).

The leader proposes, the controller decides, and between the two there is the *maximal* ISR: the committed one, and who
is being added. The high watermark waits for all of the maximal ISR, so whatever the controller decides, every replica
that may be elected has all that is below it. One proposal of a partition is under way at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from penstock.errors import ErrorCode

if TYPE_CHECKING:
    from penstock.replication.partition import Partition

ROLLED_BACK = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})
"""The controller says that it knows the present state of the partition and has not changed it, so the committed ISR
holds, as in Kafka (`Partition.handleAlterPartitionError`).

One thing neither excludes: the request was sent twice, the answer to the first was lost, and that first copy arrives
late, when the broker that it adds is eligible again in the same incarnation. Then the controller has one in sync that
the high watermark did not wait for meanwhile; it does from the moment that the metadata tells. To wait for that one all
the time would be worse: it is mostly one that has died, and nothing would be acknowledged until it is back."""

SETTLED_BY_METADATA = frozenset(
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


class PartitionOwner(Protocol):
    """What a leader's partition asks of the broker around it."""

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

    def high_watermark_moved(self, partition: Partition) -> None:
        """`partition.high_watermark` is to be kept for the next checkpoint."""

    def low_watermark_moved(self, partition: Partition, now_ms: int) -> None:
        """A follower has told of another log start."""

    def lags(self, partition: Partition, now_ms: int) -> None:
        """The partition's end has moved away from its followers: look after them."""

    def isr_proposed(self, partition: Partition, now_ms: int) -> None:
        """`partition.proposal` is to be sent to the controller; tell `partition.alter_answered`."""

    def isr_changed(self, partition: Partition, proposal: Proposal) -> None:
        """The controller has accepted a proposal."""
