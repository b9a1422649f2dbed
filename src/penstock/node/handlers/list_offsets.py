"""ListOffsets (key 2): the offset at which a partition begins, ends, or first reached a time.

Versions 1-11, flexible from 6. Special timestamps: -1 end, -2 start, -3 the record with the largest timestamp (v7), -4
start of the local log (v8), -5 end of the remote log (v9), -6 start of what is not yet remote (v11). A time beyond the
last record answers offset -1, not an error. Isolation level from v2: read_committed ends at the last stable offset.
Leader epochs from v4. OFFSET_NOT_AVAILABLE (before v5 LEADER_NOT_AVAILABLE) while a new leader does not know how much
is replicated. A duplicate partition in the request is answered once, with INVALID_REQUEST.
"""

from __future__ import annotations

from collections import Counter
from operator import attrgetter
from typing import TYPE_CHECKING

from penstock.errors import ErrorCode, RequestError
from penstock.node.handlers.of_partitions import OfPartitions
from penstock.node.request import Handler, Request
from penstock.node.steps import Pace, Stepped
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest
from penstock.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from penstock.security.rights import DESCRIBE_TOPIC

if TYPE_CHECKING:
    from penstock.node.broker import Broker
    from penstock.replication.partition import Partition


LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
SINCE_VERSION = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}

LEADER_EPOCH_SINCE_VERSION = 4
NOT_AVAILABLE_SINCE_VERSION = 5

CONSUMER = -1
READ_UNCOMMITTED = 0
READ_COMMITTED = 1
NO_TIMESTAMP = -1
UNKNOWN = -1
INDEX_OF = attrgetter("partition_index")


def handle(node: Broker, request: Request[ListOffsetsRequest], now_ms: int) -> Stepped[Message]:
    body = request.body
    if body.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        raise RequestError(ErrorCode.INVALID_REQUEST, f"there is no isolation level {body.isolation_level}")
    pace = Pace()
    named: Counter[tuple[str, int]] = Counter()
    for topic in body.topics:
        for wanted in topic.partitions:
            if pace.is_over():
                yield None
            named[topic.name, wanted.partition_index] += 1

    def answered(topic: str, wanted: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
        if named[topic, wanted.partition_index] > 1:
            return failed(wanted, ErrorCode.INVALID_REQUEST)
        return answer(node, request, topic, wanted)

    topics, partitions = [], OfPartitions("look-up", DESCRIBE_TOPIC, INDEX_OF, answered, failed)
    for topic in body.topics:
        name = topic.name
        answers = yield from partitions.in_steps(node, request, name, topic.partitions, pace)
        by_index = {each.partition_index: each for each in answers}
        topics.append(ListOffsetsTopicResponse(name=name, partitions=list(by_index.values())))
    return ListOffsetsResponse(topics=topics)


def refuse(request: Request[ListOffsetsRequest], code: ErrorCode, message: str) -> Message:
    topics = request.body.topics if request.body is not None else []
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(name=topic.name, partitions=[failed(wanted, code) for wanted in topic.partitions])
            for topic in topics
        ]
    )


def answer(
    node: Broker, request: Request[ListOffsetsRequest], topic: str, wanted: ListOffsetsPartition
) -> ListOffsetsPartitionResponse:
    """The answer for one partition. A cold index raises NotResident, and the lookup is repeated."""
    timestamp = wanted.timestamp
    if timestamp < EARLIEST_PENDING_UPLOAD or request.version < SINCE_VERSION.get(timestamp, 0):
        return failed(wanted, ErrorCode.UNSUPPORTED_VERSION)
    partition = node.replicas.leader(topic, wanted.partition_index, node.scheduler.now_ms)
    if isinstance(partition, ErrorCode):
        return failed(wanted, partition)
    if stale := partition.check_epoch(wanted.current_leader_epoch):
        return failed(wanted, stale)
    offset, found_timestamp, leader_epoch = look_up(partition, timestamp, readable_end(partition, request.body))
    if request.body.replica_id == CONSUMER and (timestamp == LATEST or offset == UNKNOWN) and catching_up(partition):
        known = request.version >= NOT_AVAILABLE_SINCE_VERSION
        return failed(wanted, ErrorCode.OFFSET_NOT_AVAILABLE if known else ErrorCode.LEADER_NOT_AVAILABLE)
    if request.version < LEADER_EPOCH_SINCE_VERSION:
        leader_epoch = UNKNOWN
    return ListOffsetsPartitionResponse(
        partition_index=wanted.partition_index, offset=offset, timestamp=found_timestamp, leader_epoch=leader_epoch
    )


def catching_up(partition: Partition) -> bool:
    """Whether a new leader's high watermark may be lower than what its predecessor has shown (KIP-207)."""
    return partition.high_watermark < partition.isr.epoch_start_offset


def readable_end(partition: Partition, body: ListOffsetsRequest) -> int:
    """The end of what the requester may read."""
    if body.replica_id != CONSUMER:
        return partition.log_end_offset
    return partition.last_stable_offset if body.isolation_level == READ_COMMITTED else partition.high_watermark


def look_up(partition: Partition, timestamp: int, end_offset: int) -> tuple[int, int, int]:
    """(offset, timestamp, leader epoch) for a special or a real timestamp; (-1, -1, -1) when there is none."""
    log = partition.log
    if timestamp == LATEST:
        return end_offset, NO_TIMESTAMP, partition.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        # Nothing is remote: the local log is all of it.
        return log.log_start_offset, NO_TIMESTAMP, log.leader_epochs.epoch_for(log.log_start_offset)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return UNKNOWN, NO_TIMESTAMP, UNKNOWN
    found = (
        log.segments.offset_of_max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    )
    if found is None or found.offset >= end_offset:
        return UNKNOWN, NO_TIMESTAMP, UNKNOWN
    return found.offset, found.timestamp_ms, found.leader_epoch


def failed(wanted: ListOffsetsPartition, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=wanted.partition_index, error_code=code, offset=-1, timestamp=-1
    )


HANDLERS = (Handler(ApiKey.LIST_OFFSETS, handle, refuse),)
