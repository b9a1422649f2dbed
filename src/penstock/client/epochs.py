"""Whether a partition's log still is the one that a reader has read: leader epochs, as consumers use them (KIP-320).

An election of a replica that lacks records (an unclean one) cuts the log, and what comes after has the offsets of what
was lost. Each leader writes its epoch into its batches; so a reader keeps the epoch of the last batch that it read, and
asks the leader where that epoch ends in its log (`Client.epoch_ends`).
"""

from __future__ import annotations

from penstock.client.client import EpochEnd
from penstock.records.run import SeenEpoch


def cut_at(seen: SeenEpoch, answer: EpochEnd, first: int) -> int | None:
    """The offset from which a log differs from an earlier view of it, given the last batch seen then; None if the log
    still contains that batch.

    As Kafka's consumer: where the batch's epoch ends in the leader's log, or the last epoch before it, the histories
    part. It is not known where they do if the leader knows no epoch as late; then they may from the log's first offset.

    Args:
        seen: the epoch of the last batch seen, and where it ended.
        answer: what the leader answers about that epoch.
        first: where the leader's log begins.
    """
    at = first if answer.end_offset < 0 else answer.end_offset
    return at if at < seen.end else None
