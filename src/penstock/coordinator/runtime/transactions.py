"""What producers write into a coordinator's topic as part of their transactions.

The partition's log wants a guard for the first batch of a transaction (KIP-890): it is taken before the transaction's
coordinator is asked whether the transaction goes on, and void once another batch or a marker has come in between.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.log.producer_state import VerificationGuard


class Transaction(NamedTuple):
    """The transaction that an operation's records belong to. `guard`: None if it is open in the partition already."""

    producer_id: int
    producer_epoch: int
    guard: VerificationGuard | None = None

    @property
    def producer(self) -> tuple[int, int]:
        return self.producer_id, self.producer_epoch


class TransactionEnd(NamedTuple):
    """A marker to be appended: the end of a producer's transaction in the partition.

    Attributes:
        coordinator_epoch: of the transaction's coordinator. An older one than the last is refused.
        transaction_version: by whose rules it ends (the feature `transaction.version`); 0 if the sender did not say.
    """

    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    transaction_version: int = 0
