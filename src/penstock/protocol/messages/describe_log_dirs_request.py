"""DescribeLogDirsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class DescribeLogDirsRequest(Message):
    """DescribeLogDirsRequest, versions 1 to 5."""

    __slots__ = ("topics",)

    NAME = "DescribeLogDirsRequest"
    KEY = 35
    MIN_VERSION = 1
    MAX_VERSION = 5
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        topics: list[DescribableLogDirTopic] | None = ABSENT,
    ) -> None:
        self.topics = [] if topics is ABSENT else topics


class DescribableLogDirTopic(Struct):
    __slots__ = ("topic", "partitions",)

    def __init__(
        self,
        *,
        topic: str = '',
        partitions: list[int] = ABSENT,
    ) -> None:
        self.topic = topic
        self.partitions = [] if partitions is ABSENT else partitions
