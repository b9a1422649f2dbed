"""ShareAcknowledgeResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class ShareAcknowledgeResponse(Message, key=79, versions=(1, 2), flexible_from=0):
    """ShareAcknowledgeResponse, versions 1 to 2."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: int = 0
    responses: list[ShareAcknowledgeTopicResponse] = ABSENT
    node_endpoints: list[NodeEndpoint] = ABSENT


class ShareAcknowledgeTopicResponse(Struct):
    topic_id: UUID = ZERO_UUID
    partitions: list[PartitionData] = ABSENT


class PartitionData(Struct):
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None
    current_leader: LeaderIdAndEpoch = ABSENT


class LeaderIdAndEpoch(Struct):
    leader_id: int = 0
    leader_epoch: int = 0


class NodeEndpoint(Struct):
    node_id: int = 0
    host: str = ''
    port: int = 0
    rack: str | None = None
