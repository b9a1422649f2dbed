"""Answers of a Fetch for single partitions, and the response that is made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from penstock.errors import ErrorCode, RequestError
from penstock.protocol.messages.fetch_response import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    PartitionData,
)
from penstock.replication.fetch_session import Subscription

if TYPE_CHECKING:
    from penstock.log.disk import FileSlice
    from penstock.log.log import Log
    from penstock.log.results import LogRead
    from penstock.protocol.messages.fetch_request import FetchRequest
    from penstock.replication.follower import Follower
    from penstock.replication.partition import Partition

CONSUMER = -1
NO_RECORDS = b""


class Said:
    """A response in the making: its topics, the leaders that it names, and the subscriptions that got records."""

    __slots__ = ("leaders", "served", "topics")

    def __init__(self) -> None:
        self.topics: list[FetchableTopicResponse] = []
        self.leaders: dict[int, None] = {}
        self.served: list[Subscription] = []


def replica_id(body: FetchRequest) -> int:
    """The broker that fetches, or -1 for a consumer. From v15 the id is in the replica state."""
    return body.replica_id if body.replica_id != CONSUMER else body.replica_state.replica_id


def put_records(answer: PartitionData, log: Log, offset: int, found: LogRead) -> None:
    """Puts what a read from an offset has found into an answer, with the aborted transactions if it is to list them."""
    answer.records = found.slices
    if answer.aborted_transactions is not None:
        answer.aborted_transactions = [
            AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
            for aborted in log.segments.aborted_transactions(offset, found.next_offset)
        ]


def add_answer(topics: list[FetchableTopicResponse], subscription: Subscription, answer: PartitionData) -> None:
    """Puts a partition's answer into the response, under its topic if that was added last."""
    topic = subscription.topic or ""
    if topics and topics[-1].topic == topic and topics[-1].topic_id == subscription.topic_id:
        topics[-1].partitions.append(answer)
    else:
        topics.append(FetchableTopicResponse(topic=topic, topic_id=subscription.topic_id, partitions=[answer]))


def sum_of(answer: PartitionData) -> int:
    """Bytes of records in an answer."""
    records = answer.records
    if records is NO_RECORDS or records is None:
        return 0
    return sum(piece.length for piece in cast("list[FileSlice]", records))


def to_be_told(subscription: Subscription, answer: PartitionData) -> bool:
    """Whether an answer without records contains something that the client does not know yet."""
    return (
        answer.error_code != 0
        or answer.high_watermark != subscription.high_watermark
        or answer.log_start_offset != subscription.log_start_offset
        or answer.diverging_epoch.end_offset >= 0
        or answer.preferred_read_replica >= 0
    )


def divergence(partition: Partition | Follower, subscription: Subscription) -> EpochEndOffset | None:
    """Where the reader's log diverges from ours, by the epoch of its last record (KIP-595); None if it does not."""
    log = partition.log
    assert log is not None
    epoch, end_offset = log.leader_epochs.end_offset_for(subscription.last_fetched_epoch, log.log_end_offset)
    if epoch < 0 or end_offset < 0 or subscription.fetch_offset < log.log_start_offset:
        raise RequestError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch < subscription.last_fetched_epoch or end_offset < subscription.fetch_offset:
        return EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return None


def failed(index: int, code: ErrorCode) -> PartitionData:
    """The answer for a partition with an error."""
    return PartitionData(
        partition_index=index, error_code=code, high_watermark=-1, aborted_transactions=None, records=NO_RECORDS
    )
