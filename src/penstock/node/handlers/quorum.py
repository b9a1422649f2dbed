"""DescribeQuorum (key 55): leader, epoch and voters of the metadata quorum (KIP-595).

Versions 0-2, flexible. Version 2 adds directory ids and the controllers' addresses. Only partition 0 of the metadata
topic is known here; everything else is UNKNOWN_TOPIC_OR_PARTITION. The leader has fetched and caught up at this moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import ErrorCode
from penstock.metadata.names import METADATA_TOPIC
from penstock.node.request import FORWARD, Handler, Outcome, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.message import ZERO_UUID
from penstock.protocol.messages.describe_quorum_request import DescribeQuorumRequest
from penstock.protocol.messages.describe_quorum_response import (
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)
from penstock.raft.replica import QuorumDescription
from penstock.raft.states import Progress
from penstock.security.authorizer import Authorize, Operation, ResourceType

if TYPE_CHECKING:
    from penstock.node.broker import Broker

DIRECTORIES_FROM = 2

AUTHORIZE = Authorize(Operation.DESCRIBE, ResourceType.CLUSTER)


def handle(node: Broker, request: Request[DescribeQuorumRequest], now_ms: int) -> Outcome:
    if not node.controller.active:
        return FORWARD
    asked = [(topic.topic_name, [each.partition_index for each in topic.partitions]) for topic in request.body.topics]
    if asked != [(METADATA_TOPIC, [0])]:
        return DescribeQuorumResponse(topics=[unknown_topic(name, partitions) for name, partitions in asked])
    described = node.quorum.describe()
    return DescribeQuorumResponse(
        topics=[TopicData(topic_name=METADATA_TOPIC, partitions=[quorum(described, request.version, now_ms)])],
        nodes=nodes(node, described) if request.version >= DIRECTORIES_FROM else [],
    )


def quorum(described: QuorumDescription, version: int, now_ms: int) -> PartitionData:
    """The state of the quorum."""
    return PartitionData(
        leader_id=described.leader_id,
        leader_epoch=described.epoch,
        high_watermark=described.high_watermark,
        current_voters=[replica(each, described.leader_id, version, now_ms) for each in described.voters],
        observers=[replica(each, described.leader_id, version, now_ms) for each in described.observers],
    )


def replica(progress: Progress, leader_id: int, version: int, now_ms: int) -> ReplicaState:
    """How far one replica is."""
    leads = progress.key.id == leader_id
    return ReplicaState(
        replica_id=progress.key.id,
        replica_directory_id=progress.key.directory_id if version >= DIRECTORIES_FROM else ZERO_UUID,
        log_end_offset=progress.end_offset,
        last_fetch_timestamp=now_ms if leads else progress.last_fetch_ms,
        last_caught_up_timestamp=now_ms if leads else progress.last_caught_up_ms,
    )


def nodes(node: Broker, described: QuorumDescription) -> list[Node]:
    """The addresses of the voters that have registered as controllers."""
    return [
        Node(
            node_id=controller.id,
            listeners=[Listener(name=each.name, host=each.host, port=each.port) for each in controller.endpoints],
        )
        for controller in node.image.controllers.values()
        if any(voter.key.id == controller.id for voter in described.voters)
    ]


def unknown_topic(name: str, partitions: list[int]) -> TopicData:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    sentence = "This server does not host this topic-partition."
    return TopicData(
        topic_name=name,
        partitions=[
            PartitionData(partition_index=index, error_code=code, error_message=sentence) for index in partitions
        ],
    )


HANDLERS = (Handler(ApiKey.DESCRIBE_QUORUM, handle, AUTHORIZE),)
