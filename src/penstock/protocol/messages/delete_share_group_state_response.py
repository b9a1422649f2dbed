"""DeleteShareGroupStateResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class DeleteShareGroupStateResponse(Message, key=86, versions=(0, 0), flexible_from=0):
    """DeleteShareGroupStateResponse, versions 0 to 0."""

    results: list[DeleteStateResult] = ABSENT


class DeleteStateResult(Struct):
    topic_id: UUID = ZERO_UUID
    partitions: list[PartitionResult] = ABSENT


class PartitionResult(Struct):
    partition: int = 0
    error_code: int = 0
    error_message: str | None = None
