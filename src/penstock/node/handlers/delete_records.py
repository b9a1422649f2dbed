"""DeleteRecords (key 21): moves the start of a partition's log; the segments below it go with the next retention.

Versions 0-2, flexible from 2. Offset -1 is the high watermark. OFFSET_OUT_OF_RANGE above the high watermark,
POLICY_VIOLATION for a topic that is only compacted, INVALID_TOPIC_EXCEPTION for an internal one. The answer carries the
low watermark: the least log start offset of the replicas that are alive. It leaves when that has come as far as was
asked on all of them, which followers tell with their fetches; REQUEST_TIMED_OUT when they take too long.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.errors import ErrorCode, PenstockError, RequestError
from penstock.node.handlers.produce import INTERNAL_TOPICS
from penstock.node.request import Handler, Message, Outcome, Parked, Request
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


def handle(node: Broker, request: Request[DeleteRecordsRequest], now_ms: int) -> Outcome:
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
    waiting: list[Waiting] = []
    for name, wanted, partition in found:
        result = DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=NO_WATERMARK)
        results[name].append(result)
        if isinstance(partition, ErrorCode):
            result.error_code = partition
            continue
        try:
            waiting.append(Waiting(partition, result, partition.delete_records(wanted.offset, now_ms)))
        except RequestError as error:
            result.error_code = error.code
        except PenstockError as error:
            result.error_code = error.code
    response = DeleteRecordsResponse(
        topics=[DeleteRecordsTopicResult(name=name, partitions=partitions) for name, partitions in results.items()]
    )
    if all(each.done(node) for each in waiting):
        return response
    keys = [low_watermark_of(each.partition) for each in waiting]
    deadline_ms = request.arrived_ms + request.body.timeout_ms

    def complete(now_ms: int) -> Message | None:
        return response if all(each.done(node) for each in waiting) else None

    def expire(now_ms: int) -> Message:
        for each in waiting:
            if not each.done(node):
                each.result.error_code = ErrorCode.REQUEST_TIMED_OUT
        return response

    return Parked(keys, deadline_ms, complete, expire)


def low_watermark_of(partition: Partition) -> Hashable:
    """The purgatory's key for a partition's low watermark."""
    return ("low watermark", partition.topic, partition.index)


@dataclass(slots=True)
class Waiting:
    """A partition whose log begins at `offset` here, and should so on all replicas."""

    partition: Partition
    result: DeleteRecordsPartitionResult
    offset: int

    def done(self, node: Broker) -> bool:
        """Whether it does, or never will as long as we watch; the result says which."""
        partition, result = self.partition, self.result
        if node.replicas.in_use(partition.topic, partition.index) is not partition:
            result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            result.low_watermark = NO_WATERMARK
            return True
        result.low_watermark = partition.low_watermark
        return result.low_watermark >= self.offset


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
