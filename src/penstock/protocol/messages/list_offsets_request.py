"""ListOffsetsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class ListOffsetsRequest(Message, key=2, versions=(1, 11), flexible_from=6):
    """ListOffsetsRequest, versions 1 to 11."""

    replica_id: int = 0
    isolation_level: int = 0
    topics: list[ListOffsetsTopic] = ABSENT
    timeout_ms: int = 0


class ListOffsetsTopic(Struct):
    name: str = ''
    partitions: list[ListOffsetsPartition] = ABSENT


class ListOffsetsPartition(Struct):
    partition_index: int = 0
    current_leader_epoch: int = -1
    timestamp: int = 0
