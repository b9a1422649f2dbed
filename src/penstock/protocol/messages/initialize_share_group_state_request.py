"""InitializeShareGroupStateRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class InitializeShareGroupStateRequest(Message, key=83, versions=(0, 0), flexible_from=0):
    """InitializeShareGroupStateRequest, versions 0 to 0."""

    group_id: str = ''
    topics: list[InitializeStateData] = ABSENT


class InitializeStateData(Struct):
    topic_id: UUID = ZERO_UUID
    partitions: list[PartitionData] = ABSENT


class PartitionData(Struct):
    partition: int = 0
    state_epoch: int = 0
    start_offset: int = 0
