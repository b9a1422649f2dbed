"""DeleteRecords (key 21): moves the start of a partition's log; the segments below it go with the next retention.

Versions 0-2, flexible from 2. Offset -1 is the high watermark. OFFSET_OUT_OF_RANGE above the high watermark,
POLICY_VIOLATION for a topic that is only compacted, INVALID_TOPIC_EXCEPTION for an internal one. The answer has the low
watermark: the lowest log start offset of the live replicas. It leaves when that has reached the requested offset, which
followers report in their fetches; REQUEST_TIMED_OUT if they take too long.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

from penstock.errors import ErrorCode
from penstock.metadata.names import is_internal
from penstock.node.handlers.of_partitions import OfPartitions
from penstock.node.purgatory import low_watermark_of
from penstock.node.request import Handler, Outcome, Parked, Request
from penstock.node.steps import Pace, Stepped
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.delete_records_request import DeleteRecordsPartition, DeleteRecordsRequest
from penstock.protocol.messages.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from penstock.replication.partition import Partition
from penstock.security.rights import DELETE_RECORDS

if TYPE_CHECKING:
    from penstock.node.broker import Broker


NO_WATERMARK = -1
INDEX_OF = attrgetter("partition_index")


def handle(node: Broker, request: Request[DeleteRecordsRequest], now_ms: int) -> Stepped[Outcome]:
    results: dict[str, list[DeleteRecordsPartitionResult]] = {topic.name: [] for topic in request.body.topics}
    waiting: list[Waiting] = []
    partitions = OfPartitions("deletion of records", DELETE_RECORDS, INDEX_OF, partial(delete, node), failed)
    pace = Pace()
    for topic in request.body.topics:
        for each in (yield from partitions.in_steps(node, request, topic.name, topic.partitions, pace)):
            if isinstance(each, Waiting):
                waiting.append(each)
                results[topic.name].append(each.result)
            else:
                results[topic.name].append(each)
    node.journal.records_deleted(request, waiting)
    response = DeleteRecordsResponse(
        topics=[DeleteRecordsTopicResult(name=name, partitions=partitions) for name, partitions in results.items()]
    )

    def complete(now_ms: int) -> Message | None:
        while waiting and waiting[-1].done(node):
            waiting.pop()
        return None if waiting else response

    def expire(now_ms: int) -> Message:
        for each in waiting:
            if not each.done(node):
                each.result.error_code = ErrorCode.REQUEST_TIMED_OUT
        return response

    yield from some_done(node, waiting, pace)
    if not waiting:
        return response
    keys = list(dict.fromkeys(low_watermark_of(each.partition) for each in waiting))
    return Parked(keys, request.arrived_ms + request.body.timeout_ms, complete, expire)


def some_done(node: Broker, waiting: list[Waiting], pace: Pace) -> Stepped[None]:
    """Removes partitions that are done, from the end, up to the first that is not."""
    while waiting and waiting[-1].done(node):
        waiting.pop()
        if pace.is_over():
            yield None


def delete(node: Broker, topic: str, wanted: DeleteRecordsPartition) -> DeleteRecordsPartitionResult | Waiting:
    """Deletes the records of one partition, or says why not."""
    partition = find(node, topic, wanted.partition_index, node.scheduler.now_ms)
    if isinstance(partition, ErrorCode):
        return failed(wanted, partition)
    result = failed(wanted, ErrorCode.NONE)
    return Waiting(partition, result, partition.delete_records(wanted.offset, node.scheduler.now_ms))


def failed(wanted: DeleteRecordsPartition, code: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=wanted.partition_index, low_watermark=NO_WATERMARK, error_code=code
    )


@dataclass(slots=True)
class Waiting:
    """A partition whose log starts at `offset` here, and has to on all live replicas."""

    partition: Partition
    result: DeleteRecordsPartitionResult
    offset: int

    def __str__(self) -> str:
        return f"{self.partition.topic}-{self.partition.index} before {self.offset}"

    def done(self, node: Broker) -> bool:
        """Whether it does, or this node cannot see it any more; sets the result."""
        partition, result = self.partition, self.result
        if node.replicas.in_use(partition.topic, partition.index) is not partition:
            result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            result.low_watermark = NO_WATERMARK
            return True
        result.low_watermark = partition.low_watermark
        return result.low_watermark >= self.offset


def find(node: Broker, topic: str, index: int, now_ms: int) -> Partition | ErrorCode:
    """The partition whose records are to be deleted, or the error."""
    partition = node.replicas.leader(topic, index, now_ms)
    if is_internal(topic) and not isinstance(partition, ErrorCode):
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return partition


def refuse(request: Request[DeleteRecordsRequest], code: ErrorCode, message: str) -> Message:
    topics = request.body.topics if request.body is not None else []
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(name=topic.name, partitions=[failed(wanted, code) for wanted in topic.partitions])
            for topic in topics
        ]
    )


HANDLERS = (Handler(ApiKey.DELETE_RECORDS, handle, refuse),)
