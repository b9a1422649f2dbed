"""AssignReplicasToDirs (key 73): a broker reports in which log directories its replicas lie (KIP-858). On controller
listeners only.

Version 0, flexible. A replica in a directory that is not online cannot lead any more. Errors of single partitions:
UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from uuid import UUID

from penstock.errors import ErrorCode
from penstock.metadata.directories import TopicIdPartition, assign_directories
from penstock.metadata.result import Result
from penstock.node.decisions import decided, parts_of
from penstock.node.limits import DIRECTORY_ASSIGNMENTS_PER_STEP
from penstock.node.request import Handler, Outcome, Request
from penstock.node.steps import Pace, Stepped, lazily
from penstock.protocol.api import ApiKey
from penstock.protocol.messages import assign_replicas_to_dirs_request as requested
from penstock.protocol.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest
from penstock.protocol.messages.assign_replicas_to_dirs_response import (
    AssignReplicasToDirsResponse,
    DirectoryData,
    PartitionData,
    TopicData,
)

if TYPE_CHECKING:
    from penstock.node.broker import Broker


def handle(node: Broker, request: Request[AssignReplicasToDirsRequest], now_ms: int) -> Stepped[Outcome]:
    body = request.body
    if not node.controller.active:
        return AssignReplicasToDirsResponse(error_code=ErrorCode.NOT_CONTROLLER)
    assignments: dict[TopicIdPartition, UUID] = {}
    pace = Pace(DIRECTORY_ASSIGNMENTS_PER_STEP)
    for directory in body.directories:
        for topic in directory.topics:
            for partition in topic.partitions:
                if pace.is_over():
                    yield None
                assignments[topic.topic_id, partition.partition_index] = directory.id
    controller = node.controller.state

    def decide(part: list[tuple[TopicIdPartition, UUID]]) -> Result[list[tuple[TopicIdPartition, ErrorCode]]]:
        result = assign_directories(controller, body.broker_id, body.broker_epoch, dict(part))
        return Result(list(result.response.items()), result.records, atomic=result.atomic)

    plan = yield from decided(node, request, parts_of(assignments.items()), decide)
    codes = dict(plan.answers)
    directories = lazily(lambda directory: directory_data(directory, codes), body.directories)
    return plan.outcome(AssignReplicasToDirsResponse(directories=directories))


def directory_data(directory: requested.DirectoryData, codes: Mapping[TopicIdPartition, ErrorCode]) -> DirectoryData:
    topics = lazily(lambda topic: topic_data(topic, codes), directory.topics)
    return DirectoryData(id=directory.id, topics=topics)


def topic_data(topic: requested.TopicData, codes: Mapping[TopicIdPartition, ErrorCode]) -> TopicData:
    def partition_data(partition: requested.PartitionData) -> PartitionData:
        index = partition.partition_index
        return PartitionData(partition_index=index, error_code=codes[topic.topic_id, index])

    return TopicData(topic_id=topic.topic_id, partitions=lazily(partition_data, topic.partitions))


HANDLERS = (Handler(ApiKey.ASSIGN_REPLICAS_TO_DIRS, handle),)
