"""OffsetCommitRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class OffsetCommitRequest(Message, key=8, versions=(2, 10), flexible_from=8):
    """OffsetCommitRequest, versions 2 to 10."""

    group_id: str = ''
    generation_id_or_member_epoch: int = -1
    member_id: str = ''
    group_instance_id: str | None = None
    retention_time_ms: int = -1
    topics: list[OffsetCommitRequestTopic] = ABSENT


class OffsetCommitRequestTopic(Struct):
    name: str = ''
    topic_id: UUID = ZERO_UUID
    partitions: list[OffsetCommitRequestPartition] = ABSENT


class OffsetCommitRequestPartition(Struct):
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    committed_metadata: str | None = ''
