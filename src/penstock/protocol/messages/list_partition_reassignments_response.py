"""ListPartitionReassignmentsResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class ListPartitionReassignmentsResponse(Message, key=46, versions=(0, 0), flexible_from=0):
    """ListPartitionReassignmentsResponse, versions 0 to 0."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ''
    topics: list[OngoingTopicReassignment] = ABSENT


class OngoingTopicReassignment(Struct):
    name: str = ''
    partitions: list[OngoingPartitionReassignment] = ABSENT


class OngoingPartitionReassignment(Struct):
    partition_index: int = 0
    replicas: list[int] = ABSENT
    adding_replicas: list[int] = ABSENT
    removing_replicas: list[int] = ABSENT
