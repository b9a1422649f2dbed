"""OffsetDeleteRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class OffsetDeleteRequest(Message, key=47, versions=(0, 0)):
    """OffsetDeleteRequest, versions 0 to 0."""

    group_id: str = ''
    topics: list[OffsetDeleteRequestTopic] = ABSENT


class OffsetDeleteRequestTopic(Struct):
    name: str = ''
    partitions: list[OffsetDeleteRequestPartition] = ABSENT


class OffsetDeleteRequestPartition(Struct):
    partition_index: int = 0
