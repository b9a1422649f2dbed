"""DescribeShareGroupOffsetsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class DescribeShareGroupOffsetsRequest(Message):
    """DescribeShareGroupOffsetsRequest, versions 0 to 1."""

    __slots__ = ("groups",)

    NAME = "DescribeShareGroupOffsetsRequest"
    KEY = 90
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        groups: list[DescribeShareGroupOffsetsRequestGroup] = ABSENT,
    ) -> None:
        self.groups = [] if groups is ABSENT else groups


class DescribeShareGroupOffsetsRequestGroup(Struct):
    __slots__ = ("group_id", "topics",)

    def __init__(
        self,
        *,
        group_id: str = '',
        topics: list[DescribeShareGroupOffsetsRequestTopic] | None = ABSENT,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is ABSENT else topics


class DescribeShareGroupOffsetsRequestTopic(Struct):
    __slots__ = ("topic_name", "partitions",)

    def __init__(
        self,
        *,
        topic_name: str = '',
        partitions: list[int] = ABSENT,
    ) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is ABSENT else partitions
