"""ReadShareGroupStateSummaryResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class ReadShareGroupStateSummaryResponse(Message, key=87, versions=(0, 1), flexible_from=0):
    """ReadShareGroupStateSummaryResponse, versions 0 to 1."""

    results: list[ReadStateSummaryResult] = ABSENT


class ReadStateSummaryResult(Struct):
    topic_id: UUID = ZERO_UUID
    partitions: list[PartitionResult] = ABSENT


class PartitionResult(Struct):
    partition: int = 0
    error_code: int = 0
    error_message: str | None = None
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = 0
    delivery_complete_count: int = -1
