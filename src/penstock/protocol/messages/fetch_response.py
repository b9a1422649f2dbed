"""FetchResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Records, Struct, ZERO_UUID


class FetchResponse(Message, key=1, versions=(4, 18), flexible_from=12):
    """FetchResponse, versions 4 to 18."""

    throttle_time_ms: int = 0
    error_code: int = 0
    session_id: int = 0
    responses: list[FetchableTopicResponse] = ABSENT
    node_endpoints: list[NodeEndpoint] = ABSENT


class FetchableTopicResponse(Struct):
    topic: str = ''
    topic_id: UUID = ZERO_UUID
    partitions: list[PartitionData] = ABSENT


class PartitionData(Struct):
    partition_index: int = 0
    error_code: int = 0
    high_watermark: int = 0
    last_stable_offset: int = -1
    log_start_offset: int = -1
    diverging_epoch: EpochEndOffset = ABSENT
    current_leader: LeaderIdAndEpoch = ABSENT
    snapshot_id: SnapshotId = ABSENT
    aborted_transactions: list[AbortedTransaction] | None = ABSENT
    preferred_read_replica: int = -1
    records: Records | None = b""


class EpochEndOffset(Struct):
    epoch: int = -1
    end_offset: int = -1


class LeaderIdAndEpoch(Struct):
    leader_id: int = -1
    leader_epoch: int = -1


class SnapshotId(Struct):
    end_offset: int = -1
    epoch: int = -1


class AbortedTransaction(Struct):
    producer_id: int = 0
    first_offset: int = 0


class NodeEndpoint(Struct):
    node_id: int = 0
    host: str = ''
    port: int = 0
    rack: str | None = None
