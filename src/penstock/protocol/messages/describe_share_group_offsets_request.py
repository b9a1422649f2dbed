"""DescribeShareGroupOffsetsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class DescribeShareGroupOffsetsRequest(Message, key=90, versions=(0, 1), flexible_from=0):
    """DescribeShareGroupOffsetsRequest, versions 0 to 1."""

    groups: list[DescribeShareGroupOffsetsRequestGroup] = ABSENT


class DescribeShareGroupOffsetsRequestGroup(Struct):
    group_id: str = ''
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = ABSENT


class DescribeShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = ''
    partitions: list[int] = ABSENT
