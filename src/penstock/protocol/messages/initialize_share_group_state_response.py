"""InitializeShareGroupStateResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class InitializeShareGroupStateResponse(Message, key=83, versions=(0, 0), flexible_from=0):
    """InitializeShareGroupStateResponse, versions 0 to 0."""

    results: list[InitializeStateResult] = ABSENT


class InitializeStateResult(Struct):
    topic_id: UUID = ZERO_UUID
    partitions: list[PartitionResult] = ABSENT


class PartitionResult(Struct):
    partition: int = 0
    error_code: int = 0
    error_message: str | None = None
