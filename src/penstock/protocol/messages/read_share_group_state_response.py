"""ReadShareGroupStateResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class ReadShareGroupStateResponse(Message, key=84, versions=(0, 0), flexible_from=0):
    """ReadShareGroupStateResponse, versions 0 to 0."""

    results: list[ReadStateResult] = ABSENT


class ReadStateResult(Struct):
    topic_id: UUID = ZERO_UUID
    partitions: list[PartitionResult] = ABSENT


class PartitionResult(Struct):
    partition: int = 0
    error_code: int = 0
    error_message: str | None = None
    state_epoch: int = 0
    start_offset: int = 0
    state_batches: list[StateBatch] = ABSENT


class StateBatch(Struct):
    first_offset: int = 0
    last_offset: int = 0
    delivery_state: int = 0
    delivery_count: int = 0
