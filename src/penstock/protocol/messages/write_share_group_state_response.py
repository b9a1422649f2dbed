"""WriteShareGroupStateResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class WriteShareGroupStateResponse(Message, key=85, versions=(0, 1), flexible_from=0):
    """WriteShareGroupStateResponse, versions 0 to 1."""

    results: list[WriteStateResult] = ABSENT


class WriteStateResult(Struct):
    topic_id: UUID = ZERO_UUID
    partitions: list[PartitionResult] = ABSENT


class PartitionResult(Struct):
    partition: int = 0
    error_code: int = 0
    error_message: str | None = None
