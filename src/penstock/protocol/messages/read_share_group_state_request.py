"""ReadShareGroupStateRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class ReadShareGroupStateRequest(Message, key=84, versions=(0, 0), flexible_from=0):
    """ReadShareGroupStateRequest, versions 0 to 0."""

    group_id: str = ''
    topics: list[ReadStateData] = ABSENT


class ReadStateData(Struct):
    topic_id: UUID = ZERO_UUID
    partitions: list[PartitionData] = ABSENT


class PartitionData(Struct):
    partition: int = 0
    leader_epoch: int = 0
