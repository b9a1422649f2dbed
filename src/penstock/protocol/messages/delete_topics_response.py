"""DeleteTopicsResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class DeleteTopicsResponse(Message):
    """DeleteTopicsResponse, versions 1 to 6."""

    __slots__ = ("throttle_time_ms", "responses",)

    NAME = "DeleteTopicsResponse"
    KEY = 20
    MIN_VERSION = 1
    MAX_VERSION = 6
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        responses: list[DeletableTopicResult] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses = [] if responses is ABSENT else responses


class DeletableTopicResult(Struct):
    __slots__ = ("name", "topic_id", "error_code", "error_message",)

    def __init__(
        self,
        *,
        name: str | None = '',
        topic_id: UUID = ZERO_UUID,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message
