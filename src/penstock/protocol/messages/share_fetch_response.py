"""ShareFetchResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Records, Struct, ZERO_UUID


class ShareFetchResponse(Message, key=78, versions=(1, 2), flexible_from=0):
    """ShareFetchResponse, versions 1 to 2."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: int = 0
    responses: list[ShareFetchableTopicResponse] = ABSENT
    node_endpoints: list[NodeEndpoint] = ABSENT


class ShareFetchableTopicResponse(Struct):
    topic_id: UUID = ZERO_UUID
    partitions: list[PartitionData] = ABSENT


class PartitionData(Struct):
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None
    acknowledge_error_code: int = 0
    acknowledge_error_message: str | None = None
    current_leader: LeaderIdAndEpoch = ABSENT
    records: Records | None = b""
    acquired_records: list[AcquiredRecords] = ABSENT


class LeaderIdAndEpoch(Struct):
    leader_id: int = 0
    leader_epoch: int = 0


class AcquiredRecords(Struct):
    first_offset: int = 0
    last_offset: int = 0
    delivery_count: int = 0


class NodeEndpoint(Struct):
    node_id: int = 0
    host: str = ''
    port: int = 0
    rack: str | None = None
