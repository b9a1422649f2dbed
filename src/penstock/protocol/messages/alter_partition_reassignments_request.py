"""AlterPartitionReassignmentsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class AlterPartitionReassignmentsRequest(Message, key=45, versions=(0, 1), flexible_from=0):
    """AlterPartitionReassignmentsRequest, versions 0 to 1."""

    timeout_ms: int = 60000
    allow_replication_factor_change: bool = True
    topics: list[ReassignableTopic] = ABSENT


class ReassignableTopic(Struct):
    name: str = ''
    partitions: list[ReassignablePartition] = ABSENT


class ReassignablePartition(Struct):
    partition_index: int = 0
    replicas: list[int] | None = None
