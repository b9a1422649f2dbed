"""DescribeTopicPartitionsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class DescribeTopicPartitionsRequest(Message, key=75, versions=(0, 0), flexible_from=0):
    """DescribeTopicPartitionsRequest, versions 0 to 0."""

    topics: list[TopicRequest] = ABSENT
    response_partition_limit: int = 2000
    cursor: Cursor | None = None


class TopicRequest(Struct):
    name: str = ''


class Cursor(Struct):
    topic_name: str = ''
    partition_index: int = 0
