"""DescribeQuorumRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class DescribeQuorumRequest(Message):
    """DescribeQuorumRequest, versions 0 to 2."""

    __slots__ = ("topics",)

    NAME = "DescribeQuorumRequest"
    KEY = 55
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        topics: list[TopicData] = ABSENT,
    ) -> None:
        self.topics = [] if topics is ABSENT else topics


class TopicData(Struct):
    __slots__ = ("topic_name", "partitions",)

    def __init__(
        self,
        *,
        topic_name: str = '',
        partitions: list[PartitionData] = ABSENT,
    ) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is ABSENT else partitions


class PartitionData(Struct):
    __slots__ = ("partition_index",)

    def __init__(
        self,
        *,
        partition_index: int = 0,
    ) -> None:
        self.partition_index = partition_index
