"""AlterShareGroupOffsetsResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class AlterShareGroupOffsetsResponse(Message, key=91, versions=(0, 0), flexible_from=0):
    """AlterShareGroupOffsetsResponse, versions 0 to 0."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    responses: list[AlterShareGroupOffsetsResponseTopic] = ABSENT


class AlterShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = ''
    topic_id: UUID = ZERO_UUID
    partitions: list[AlterShareGroupOffsetsResponsePartition] = ABSENT


class AlterShareGroupOffsetsResponsePartition(Struct):
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None
