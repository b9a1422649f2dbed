"""CreatePartitionsResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class CreatePartitionsResponse(Message):
    """CreatePartitionsResponse, versions 0 to 3."""

    __slots__ = ("throttle_time_ms", "results",)

    NAME = "CreatePartitionsResponse"
    KEY = 37
    MIN_VERSION = 0
    MAX_VERSION = 3
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[CreatePartitionsTopicResult] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is ABSENT else results


class CreatePartitionsTopicResult(Struct):
    __slots__ = ("name", "error_code", "error_message",)

    def __init__(
        self,
        *,
        name: str = '',
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.name = name
        self.error_code = error_code
        self.error_message = error_message
