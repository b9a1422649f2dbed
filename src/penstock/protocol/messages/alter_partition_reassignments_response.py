"""AlterPartitionReassignmentsResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class AlterPartitionReassignmentsResponse(Message, key=45, versions=(0, 1), flexible_from=0):
    """AlterPartitionReassignmentsResponse, versions 0 to 1."""

    throttle_time_ms: int = 0
    allow_replication_factor_change: bool = True
    error_code: int = 0
    error_message: str | None = ''
    responses: list[ReassignableTopicResponse] = ABSENT


class ReassignableTopicResponse(Struct):
    name: str = ''
    partitions: list[ReassignablePartitionResponse] = ABSENT


class ReassignablePartitionResponse(Struct):
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = ''
