"""OffsetFetchRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class OffsetFetchRequest(Message, key=9, versions=(1, 10), flexible_from=6):
    """OffsetFetchRequest, versions 1 to 10."""

    group_id: str = ''
    topics: list[OffsetFetchRequestTopic] | None = ABSENT
    groups: list[OffsetFetchRequestGroup] = ABSENT
    require_stable: bool = False


class OffsetFetchRequestTopic(Struct):
    name: str = ''
    partition_indexes: list[int] = ABSENT


class OffsetFetchRequestGroup(Struct):
    group_id: str = ''
    member_id: str | None = None
    member_epoch: int = -1
    topics: list[OffsetFetchRequestTopics] | None = ABSENT


class OffsetFetchRequestTopics(Struct):
    name: str = ''
    topic_id: UUID = ZERO_UUID
    partition_indexes: list[int] = ABSENT
