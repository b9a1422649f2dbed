"""DescribeProducersRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class DescribeProducersRequest(Message):
    """DescribeProducersRequest, versions 0 to 0."""

    __slots__ = ("topics",)

    NAME = "DescribeProducersRequest"
    KEY = 61
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        topics: list[TopicRequest] = ABSENT,
    ) -> None:
        self.topics = [] if topics is ABSENT else topics


class TopicRequest(Struct):
    __slots__ = ("name", "partition_indexes",)

    def __init__(
        self,
        *,
        name: str = '',
        partition_indexes: list[int] = ABSENT,
    ) -> None:
        self.name = name
        self.partition_indexes = [] if partition_indexes is ABSENT else partition_indexes
