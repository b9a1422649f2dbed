"""The possible first results of an append to a led partition: rejected, deferred, or prepared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from penstock.errors import ErrorCode, PenstockError, RequestError
from penstock.log.producer_state import VerificationGuard
from penstock.records.batch import BatchHeader
from penstock.records.validation import BatchRejectedError, RecordError
from penstock.replication.rewrite import Rewrite

ACKS_ALL = -1


@dataclass(slots=True)
class Rejected:
    """Nothing was appended. `record_errors` names single records at fault, by index."""

    code: ErrorCode
    message: str
    record_errors: Sequence[RecordError] = ()


Reason = Rewrite
"""What may come before an append. Each kind is begun in its own way; all end alike, with the batch to append, or why it
is refused."""


@dataclass(slots=True)
class Deferred:
    """`reason` must be done before the append; pass its result to `Partition.resume`.

    The batch with this header was accepted in `leader_epoch`, and is appended in no other. `guard`: see
    `Partition.append_as_leader`.
    """

    reason: Reason
    header: BatchHeader
    leader_epoch: int
    guard: VerificationGuard | None = None


class Prepared(NamedTuple):
    """Reserved: the batch has these offsets if its write completes. Also the result for a duplicate batch.

    `next_offset` is what the log end (acks=1) or the high watermark (acks=all) must reach. `timestamp_ms` is the log
    append time, -1 with create time.
    """

    base_offset: int
    next_offset: int
    timestamp_ms: int


def rejected(error: PenstockError) -> Rejected:
    """An error as the answer to an append."""
    if isinstance(error, BatchRejectedError):
        return Rejected(error.code, str(error), error.record_errors)
    return Rejected(error.code, error.message if isinstance(error, RequestError) else str(error))
