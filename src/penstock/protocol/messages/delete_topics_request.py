"""DeleteTopicsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class DeleteTopicsRequest(Message):
    """DeleteTopicsRequest, versions 1 to 6."""

    __slots__ = ("topics", "topic_names", "timeout_ms",)

    NAME = "DeleteTopicsRequest"
    KEY = 20
    MIN_VERSION = 1
    MAX_VERSION = 6
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        topics: list[DeleteTopicState] = ABSENT,
        topic_names: list[str] = ABSENT,
        timeout_ms: int = 0,
    ) -> None:
        self.topics = [] if topics is ABSENT else topics
        self.topic_names = [] if topic_names is ABSENT else topic_names
        self.timeout_ms = timeout_ms


class DeleteTopicState(Struct):
    __slots__ = ("name", "topic_id",)

    def __init__(
        self,
        *,
        name: str | None = None,
        topic_id: UUID = ZERO_UUID,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
