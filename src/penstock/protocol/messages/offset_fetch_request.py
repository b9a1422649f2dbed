"""OffsetFetchRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class OffsetFetchRequest(Message):
    """OffsetFetchRequest, versions 1 to 10."""

    __slots__ = ("group_id", "topics", "groups", "require_stable",)

    NAME = "OffsetFetchRequest"
    KEY = 9
    MIN_VERSION = 1
    MAX_VERSION = 10
    FLEXIBLE_FROM = 6

    def __init__(
        self,
        *,
        group_id: str = '',
        topics: list[OffsetFetchRequestTopic] | None = ABSENT,
        groups: list[OffsetFetchRequestGroup] = ABSENT,
        require_stable: bool = False,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is ABSENT else topics
        self.groups = [] if groups is ABSENT else groups
        self.require_stable = require_stable


class OffsetFetchRequestTopic(Struct):
    __slots__ = ("name", "partition_indexes",)

    def __init__(
        self,
        *,
        name: str = '',
        partition_indexes: list[int] = ABSENT,
    ) -> None:
        self.name = name
        self.partition_indexes = [] if partition_indexes is ABSENT else partition_indexes


class OffsetFetchRequestGroup(Struct):
    __slots__ = ("group_id", "member_id", "member_epoch", "topics",)

    def __init__(
        self,
        *,
        group_id: str = '',
        member_id: str | None = None,
        member_epoch: int = -1,
        topics: list[OffsetFetchRequestTopics] | None = ABSENT,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.topics = [] if topics is ABSENT else topics


class OffsetFetchRequestTopics(Struct):
    __slots__ = ("name", "topic_id", "partition_indexes",)

    def __init__(
        self,
        *,
        name: str = '',
        topic_id: UUID = ZERO_UUID,
        partition_indexes: list[int] = ABSENT,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_indexes = [] if partition_indexes is ABSENT else partition_indexes
