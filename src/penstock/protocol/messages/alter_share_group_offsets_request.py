"""AlterShareGroupOffsetsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class AlterShareGroupOffsetsRequest(Message, key=91, versions=(0, 0), flexible_from=0):
    """AlterShareGroupOffsetsRequest, versions 0 to 0."""

    group_id: str = ''
    topics: list[AlterShareGroupOffsetsRequestTopic] = ABSENT


class AlterShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = ''
    partitions: list[AlterShareGroupOffsetsRequestPartition] = ABSENT


class AlterShareGroupOffsetsRequestPartition(Struct):
    partition_index: int = 0
    start_offset: int = 0
