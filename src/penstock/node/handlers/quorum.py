"""DescribeQuorum (key 55): leader, epoch and voters of a quorum (KIP-595).

Versions 0-2, flexible. Version 2 adds directory ids and the controllers' addresses. Only partition 0 of one quorum's
topic is known here; everything else is UNKNOWN_TOPIC_OR_PARTITION. The leader's own times are those of this moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import ErrorCode
from penstock.node.request import FORWARD, Handler, Outcome, Request
from penstock.node.steps import lazily
from penstock.protocol.api import ApiKey
from penstock.protocol.message import ZERO_UUID
from penstock.protocol.messages import describe_quorum_request as requested
from penstock.protocol.messages.describe_quorum_request import DescribeQuorumRequest
from penstock.protocol.messages.describe_quorum_response import (
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)
from penstock.raft.messages import partition_of
from penstock.raft.replica import QuorumDescription
from penstock.raft.states import Progress
from penstock.records.wall import WallTime

if TYPE_CHECKING:
    from penstock.node.broker import Broker

DIRECTORIES_FROM = 2


def handle(node: Broker, request: Request[DescribeQuorumRequest], now_ms: int) -> Outcome:
    quorum = node.quorums.meant_by(request.body)
    metadata = quorum is node.quorum
    if metadata and not node.controller.active:
        return FORWARD
    if partition_of(request.body, quorum.topic) is None:
        return DescribeQuorumResponse(topics=lazily(unknown_topic, request.body.topics))
    described = quorum.describe()
    if described.leader_id == node.state.node_id:
        partition = state_of(described, request.version, node.scheduler.wall, now_ms)
    else:
        partition = PartitionData(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, error_message="Another node leads it.")
    return DescribeQuorumResponse(
        topics=[TopicData(topic_name=quorum.topic.name, partitions=[partition])],
        nodes=nodes(node, described) if metadata and request.version >= DIRECTORIES_FROM else [],
    )


def state_of(described: QuorumDescription, version: int, wall: WallTime, now_ms: int) -> PartitionData:
    """The state of the quorum."""
    leader_id = described.leader_id
    return PartitionData(
        leader_id=leader_id,
        leader_epoch=described.epoch,
        high_watermark=described.high_watermark,
        current_voters=[replica(each, leader_id, version, wall, now_ms) for each in described.voters],
        observers=[replica(each, leader_id, version, wall, now_ms) for each in described.observers],
    )


def replica(progress: Progress, leader_id: int, version: int, wall: WallTime, now_ms: int) -> ReplicaState:
    """How far one replica is, and when it was last heard of, as wall time."""
    leads = progress.key.id == leader_id
    last_fetch_ms = now_ms if leads else progress.last_fetch_ms
    last_caught_up_ms = now_ms if leads else progress.last_caught_up_ms
    return ReplicaState(
        replica_id=progress.key.id,
        replica_directory_id=progress.key.directory_id if version >= DIRECTORIES_FROM else ZERO_UUID,
        log_end_offset=progress.end_offset,
        last_fetch_timestamp=wall.at(last_fetch_ms) if last_fetch_ms >= 0 else -1,
        last_caught_up_timestamp=wall.at(last_caught_up_ms) if last_caught_up_ms >= 0 else -1,
    )


def nodes(node: Broker, described: QuorumDescription) -> list[Node]:
    """The addresses of voters that are registered as controllers."""
    return [
        Node(
            node_id=controller.id,
            listeners=[Listener(name=each.name, host=each.host, port=each.port) for each in controller.endpoints],
        )
        for controller in node.state.image.controllers.values()
        if any(voter.key.id == controller.id for voter in described.voters)
    ]


def unknown_topic(topic: requested.TopicData) -> TopicData:
    return TopicData(topic_name=topic.topic_name, partitions=lazily(unknown_partition, topic.partitions))


def unknown_partition(partition: requested.PartitionData) -> PartitionData:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    sentence = "This server does not host this topic-partition."
    return PartitionData(partition_index=partition.partition_index, error_code=code, error_message=sentence)


HANDLERS = (Handler(ApiKey.DESCRIBE_QUORUM, handle),)
