"""Whether a partition's log is still the one that a reader has read: leader epochs, as consumers use them (KIP-320).

If a replica that lacks records is elected (unclean election), the log is truncated, and new records get the offsets of
the lost ones. Each leader writes its epoch into its batches; so a reader keeps the epoch of the last batch that it
read, and asks the leader where that epoch ends in its log (`Client.epoch_ends`).
"""

from __future__ import annotations

from penstock.client.client import EpochEnd
from penstock.records.run import SeenEpoch


def cut_at(seen: SeenEpoch, answer: EpochEnd, first: int) -> int | None:
    """The offset from which a log differs from an earlier view of it, given the last batch seen then; None if the log
    still contains that batch.

    As in Kafka's consumer, the histories diverge where the batch's epoch, or the last one before it, ends in the
    leader's log. If the leader knows no epoch that early, they may diverge from the log's first offset on.

    Args:
        seen: the epoch of the last batch seen, and where it ended.
        answer: the leader's answer about that epoch.
        first: where the leader's log begins.
    """
    at = first if answer.end_offset < 0 else answer.end_offset
    return at if at < seen.end else None
