"""BeginQuorumEpochResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class BeginQuorumEpochResponse(Message, key=53, versions=(0, 1), flexible_from=1):
    """BeginQuorumEpochResponse, versions 0 to 1."""

    error_code: int = 0
    topics: list[TopicData] = ABSENT
    node_endpoints: list[NodeEndpoint] = ABSENT


class TopicData(Struct):
    topic_name: str = ''
    partitions: list[PartitionData] = ABSENT


class PartitionData(Struct):
    partition_index: int = 0
    error_code: int = 0
    leader_id: int = 0
    leader_epoch: int = 0


class NodeEndpoint(Struct):
    node_id: int = 0
    host: str = ''
    port: int = 0
