"""ListPartitionReassignmentsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class ListPartitionReassignmentsRequest(Message, key=46, versions=(0, 0), flexible_from=0):
    """ListPartitionReassignmentsRequest, versions 0 to 0."""

    timeout_ms: int = 60000
    topics: list[ListPartitionReassignmentsTopics] | None = None


class ListPartitionReassignmentsTopics(Struct):
    name: str = ''
    partition_indexes: list[int] = ABSENT
