"""Valid requests of transactions, one for every API and version; `errors_of_nobody` has the errors that they get, as
they are of a transactional id that nobody has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from uuid import UUID

from interop.clients.valid_group_requests import GROUP

from penstock.errors import ErrorCode
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from penstock.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from penstock.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from penstock.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from penstock.protocol.messages.end_txn_request import EndTxnRequest
from penstock.protocol.messages.list_transactions_request import ListTransactionsRequest
from penstock.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from penstock.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

NOBODY = "nobody"
UNKNOWN_PRODUCER = 987_654_321
WHO = {"transactional_id": NOBODY, "producer_id": UNKNOWN_PRODUCER, "producer_epoch": 0}


def add_partitions(topic: str, topic_id: UUID, version: int, new_name: str) -> Message:
    topics = [AddPartitionsToTxnTopic(name=topic, partitions=[0])]
    if version < 4:
        known = {f"v3_and_below_{name}": value for name, value in WHO.items()}
        return AddPartitionsToTxnRequest(**known, v3_and_below_topics=topics)  # type: ignore[arg-type]
    return AddPartitionsToTxnRequest(transactions=[AddPartitionsToTxnTransaction(**WHO, topics=topics)])  # type: ignore[arg-type]


def add_offsets(topic: str, topic_id: UUID, version: int, new_name: str) -> Message:
    return AddOffsetsToTxnRequest(**WHO, group_id=GROUP)  # type: ignore[arg-type]


def end(topic: str, topic_id: UUID, version: int, new_name: str) -> Message:
    return EndTxnRequest(**WHO, committed=True)  # type: ignore[arg-type]


def write_markers(topic: str, topic_id: UUID, version: int, new_name: str) -> Message:
    topics = [WritableTxnMarkerTopic(name=topic, partition_indexes=[0])]
    level = {"transaction_version": 1} if version >= 2 else {}
    marker = WritableTxnMarker(producer_id=UNKNOWN_PRODUCER, transaction_result=True, topics=topics, **level)
    return WriteTxnMarkersRequest(markers=[marker])


def commit_offsets(topic: str, topic_id: UUID, version: int, new_name: str) -> Message:
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=2)
    topics = [TxnOffsetCommitRequestTopic(name=topic, partitions=[partition])]
    return TxnOffsetCommitRequest(**WHO, group_id=GROUP, topics=topics)  # type: ignore[arg-type]


def describe_producers(topic: str, topic_id: UUID, version: int, new_name: str) -> Message:
    return DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[0])])


def describe_transactions(topic: str, topic_id: UUID, version: int, new_name: str) -> Message:
    return DescribeTransactionsRequest(transactional_ids=[NOBODY])


def list_transactions(topic: str, topic_id: UUID, version: int, new_name: str) -> Message:
    return ListTransactionsRequest(state_filters=["Ongoing"])


VALID_OF_TRANSACTIONS: Mapping[ApiKey, Callable[[str, UUID, int, str], Message]] = {
    ApiKey.ADD_PARTITIONS_TO_TXN: add_partitions,
    ApiKey.ADD_OFFSETS_TO_TXN: add_offsets,
    ApiKey.END_TXN: end,
    ApiKey.WRITE_TXN_MARKERS: write_markers,
    ApiKey.TXN_OFFSET_COMMIT: commit_offsets,
    ApiKey.DESCRIBE_PRODUCERS: describe_producers,
    ApiKey.DESCRIBE_TRANSACTIONS: describe_transactions,
    ApiKey.LIST_TRANSACTIONS: list_transactions,
}
"""By topic, topic id, version, and a name that nothing has."""


def errors_of_nobody(key: ApiKey) -> list[ErrorCode]:
    """The errors in the answer where there is no such transactional id."""
    found = {
        ApiKey.ADD_PARTITIONS_TO_TXN: ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ApiKey.ADD_OFFSETS_TO_TXN: ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ApiKey.END_TXN: ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ApiKey.TXN_OFFSET_COMMIT: ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ApiKey.DESCRIBE_TRANSACTIONS: ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    }.get(key)
    return [] if found is None else [found]
