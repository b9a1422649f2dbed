"""DeleteRecords (key 21): moves the start of a partition's log; the segments below it go with the next retention.

Versions 0-2, flexible from 2. Offset -1 is the high watermark. OFFSET_OUT_OF_RANGE above the high watermark,
POLICY_VIOLATION for a topic that is only compacted, INVALID_TOPIC_EXCEPTION for an internal one. The answer carries the
low watermark: the least log start offset of the replicas, which with one replica is this one's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import ErrorCode, PenstockError, RequestError
from penstock.node.handlers.produce import INTERNAL_TOPICS
from penstock.node.request import Handler, Message, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.delete_records_request import DeleteRecordsRequest
from penstock.protocol.messages.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from penstock.replication.partition import Partition
from penstock.security.authorizer import Authorize, Operation, ResourceType

if TYPE_CHECKING:
    from penstock.node.broker import Broker

AUTHORIZE = Authorize(Operation.DELETE, ResourceType.TOPIC)

NO_WATERMARK = -1


def handle(node: Broker, request: Request[DeleteRecordsRequest], now_ms: int) -> Message:
    # Find all partitions before anything changes: what is not open yet has the whole request run again.
    node.replicas.leaders(
        ((topic.name, wanted.partition_index) for topic in request.body.topics for wanted in topic.partitions), now_ms
    )
    found = [
        (topic.name, wanted, find(node, request, topic.name, wanted.partition_index, now_ms))
        for topic in request.body.topics
        for wanted in topic.partitions
    ]
    results: dict[str, list[DeleteRecordsPartitionResult]] = {topic.name: [] for topic in request.body.topics}
    for name, wanted, partition in found:
        result = DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=NO_WATERMARK)
        if isinstance(partition, ErrorCode):
            result.error_code = partition
        else:
            try:
                result.low_watermark = partition.delete_records(wanted.offset, now_ms)
            except RequestError as error:
                result.error_code = error.code
            except PenstockError as error:
                result.error_code = error.code
        results[name].append(result)
    return DeleteRecordsResponse(
        topics=[DeleteRecordsTopicResult(name=name, partitions=partitions) for name, partitions in results.items()]
    )


def find(
    node: Broker, request: Request[DeleteRecordsRequest], topic: str, index: int, now_ms: int
) -> Partition | ErrorCode:
    """The partition whose records go, or why they do not."""
    if not node.authorizer.authorize(request.principal, Operation.DELETE, ResourceType.TOPIC, topic):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    partition = node.replicas.leader(topic, index, now_ms)
    if topic in INTERNAL_TOPICS and not isinstance(partition, ErrorCode):
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return partition


def refuse(request: Request[DeleteRecordsRequest], code: ErrorCode, message: str) -> Message:
    topics = request.body.topics if request.body is not None else []
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    DeleteRecordsPartitionResult(
                        partition_index=wanted.partition_index, low_watermark=NO_WATERMARK, error_code=code
                    )
                    for wanted in topic.partitions
                ],
            )
            for topic in topics
        ]
    )


HANDLERS = (Handler(ApiKey.DELETE_RECORDS, handle, AUTHORIZE, refuse),)
