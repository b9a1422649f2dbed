"""DeleteShareGroupOffsetsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class DeleteShareGroupOffsetsRequest(Message):
    """DeleteShareGroupOffsetsRequest, versions 0 to 0."""

    __slots__ = ("group_id", "topics",)

    NAME = "DeleteShareGroupOffsetsRequest"
    KEY = 92
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        group_id: str = '',
        topics: list[DeleteShareGroupOffsetsRequestTopic] = ABSENT,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is ABSENT else topics


class DeleteShareGroupOffsetsRequestTopic(Struct):
    __slots__ = ("topic_name",)

    def __init__(
        self,
        *,
        topic_name: str = '',
    ) -> None:
        self.topic_name = topic_name
