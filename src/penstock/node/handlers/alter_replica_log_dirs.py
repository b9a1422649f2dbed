"""AlterReplicaLogDirs (key 34): moving replicas of this broker to other log directories (KIP-113).

Versions 0-2, flexible from 2. The answer means that the move has begun; DescribeLogDirs shows its progress. A request
for the present directory of a replica ends its move. A replica that does not exist here yet will be created in the
requested directory; the answer is REPLICA_NOT_AVAILABLE all the same, as in Kafka. Other errors: LOG_DIR_NOT_FOUND for
a path that is not in log.dirs, KAFKA_STORAGE_ERROR if this or the present directory is offline,
INVALID_REPLICA_ASSIGNMENT if it is cordoned, INVALID_TOPIC_EXCEPTION if the name is too long for a future directory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import ErrorCode
from penstock.log.names import NAME_BYTES_MAX
from penstock.node.request import Handler, Request
from penstock.node.steps import Pace, Stepped, lazily
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.alter_replica_log_dirs_request import AlterReplicaLogDirsRequest
from penstock.protocol.messages.alter_replica_log_dirs_response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

if TYPE_CHECKING:
    from penstock.node.broker import Broker

FUTURE_NAME_BYTES = len("-.-future") + 32
"""What a move adds to topic and partition in the name of its directory."""


def handle(node: Broker, request: Request[AlterReplicaLogDirsRequest], now_ms: int) -> Stepped[Message]:
    results: dict[str, dict[int, ErrorCode]] = {}
    pace = Pace()
    for directory in request.body.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                if pace.is_over():
                    yield None
                code = begin(node, topic.name, index, directory.path, node.scheduler.now_ms)
                results.setdefault(topic.name, {})[index] = code
    return response_of(results)


def begin(node: Broker, topic: str, index: int, path: str, now_ms: int) -> ErrorCode:
    """Begins one move, or says why not."""
    target = next((each for each in node.logs.table.directories if each.path == path), None)
    if len(f"{topic}{index}".encode()) + FUTURE_NAME_BYTES > NAME_BYTES_MAX:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if target is None:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if target.error is not None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if node.logs.is_cordoned(target):
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT
    registration = node.state.image.partition(topic, index)
    if registration is None or node.state.node_id not in registration.replicas or not node.logs.exists(topic, index):
        node.logs.moving.prefer((topic, index), target)
        return ErrorCode.REPLICA_NOT_AVAILABLE
    if (
        len(node.logs.table.online) < len(node.logs.table.directories)
        and node.logs.directory_of(topic, index) is not target
    ):
        return ErrorCode.KAFKA_STORAGE_ERROR
    node.replication.moves.begin(topic, index, node.state.image.topics_by_name[topic].id, target, now_ms)
    return ErrorCode.NONE


def response_of(results: dict[str, dict[int, ErrorCode]]) -> AlterReplicaLogDirsResponse:
    return AlterReplicaLogDirsResponse(results=lazily(lambda topic: topic_result(*topic), list(results.items())))


def topic_result(topic: str, codes: dict[int, ErrorCode]) -> AlterReplicaLogDirTopicResult:
    def result(partition: tuple[int, ErrorCode]) -> AlterReplicaLogDirPartitionResult:
        return AlterReplicaLogDirPartitionResult(partition_index=partition[0], error_code=partition[1])

    return AlterReplicaLogDirTopicResult(topic_name=topic, partitions=lazily(result, list(codes.items())))


def refuse(request: Request[AlterReplicaLogDirsRequest], code: ErrorCode, message: str) -> Message:
    """Every partition answered with the error."""
    dirs = request.body.dirs if request.body is not None else ()
    results: dict[str, dict[int, ErrorCode]] = {}
    for directory in dirs:
        for topic in directory.topics:
            results.setdefault(topic.name, {}).update(dict.fromkeys(topic.partitions, code))
    return response_of(results)


HANDLERS = (Handler(ApiKey.ALTER_REPLICA_LOG_DIRS, handle, refuse),)
