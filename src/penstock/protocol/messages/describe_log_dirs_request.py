"""DescribeLogDirsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class DescribeLogDirsRequest(Message, key=35, versions=(1, 5), flexible_from=2):
    """DescribeLogDirsRequest, versions 1 to 5."""

    topics: list[DescribableLogDirTopic] | None = ABSENT


class DescribableLogDirTopic(Struct):
    topic: str = ''
    partitions: list[int] = ABSENT
