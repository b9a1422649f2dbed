"""AssignReplicasToDirs (key 73): a broker tells which log directories its replicas lie in (KIP-858). On controller
listeners only.

Version 0, flexible. A replica in a directory that is not online leads no more. Errors of single partitions:
UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import ErrorCode
from penstock.metadata.directories import assign_directories
from penstock.node.request import Append, Handler, Outcome, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest
from penstock.protocol.messages.assign_replicas_to_dirs_response import (
    AssignReplicasToDirsResponse,
    DirectoryData,
    PartitionData,
    TopicData,
)
from penstock.security.authorizer import Authorize, Operation, ResourceType

if TYPE_CHECKING:
    from penstock.node.broker import Broker

AUTHORIZE = Authorize(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)


def handle(node: Broker, request: Request[AssignReplicasToDirsRequest], now_ms: int) -> Outcome:
    body = request.body
    if not node.controller.active:
        return AssignReplicasToDirsResponse(error_code=ErrorCode.NOT_CONTROLLER)
    assignments = {
        (topic.topic_id, partition.partition_index): directory.id
        for directory in body.directories
        for topic in directory.topics
        for partition in topic.partitions
    }
    result = assign_directories(node.controller.state, body.broker_id, body.broker_epoch, assignments)
    codes = result.response
    directories = [
        DirectoryData(
            id=directory.id,
            topics=[
                TopicData(
                    topic_id=topic.topic_id,
                    partitions=[
                        PartitionData(
                            partition_index=each.partition_index,
                            error_code=codes[topic.topic_id, each.partition_index],
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in directory.topics
            ],
        )
        for directory in body.directories
    ]
    return Append(result.records, AssignReplicasToDirsResponse(directories=directories), atomic=result.atomic)


HANDLERS = (Handler(ApiKey.ASSIGN_REPLICAS_TO_DIRS, handle, AUTHORIZE),)
