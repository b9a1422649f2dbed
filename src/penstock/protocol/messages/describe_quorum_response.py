"""DescribeQuorumResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class DescribeQuorumResponse(Message, key=55, versions=(0, 2), flexible_from=0):
    """DescribeQuorumResponse, versions 0 to 2."""

    error_code: int = 0
    error_message: str | None = ''
    topics: list[TopicData] = ABSENT
    nodes: list[Node] = ABSENT


class TopicData(Struct):
    topic_name: str = ''
    partitions: list[PartitionData] = ABSENT


class PartitionData(Struct):
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = ''
    leader_id: int = 0
    leader_epoch: int = 0
    high_watermark: int = 0
    current_voters: list[ReplicaState] = ABSENT
    observers: list[ReplicaState] = ABSENT


class ReplicaState(Struct):
    replica_id: int = 0
    replica_directory_id: UUID = ZERO_UUID
    log_end_offset: int = 0
    last_fetch_timestamp: int = -1
    last_caught_up_timestamp: int = -1


class Node(Struct):
    node_id: int = 0
    listeners: list[Listener] = ABSENT


class Listener(Struct):
    name: str = ''
    host: str = ''
    port: int = 0
