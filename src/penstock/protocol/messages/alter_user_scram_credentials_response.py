"""AlterUserScramCredentialsResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class AlterUserScramCredentialsResponse(Message):
    """AlterUserScramCredentialsResponse, versions 0 to 0."""

    __slots__ = ("throttle_time_ms", "results",)

    NAME = "AlterUserScramCredentialsResponse"
    KEY = 51
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[AlterUserScramCredentialsResult] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is ABSENT else results


class AlterUserScramCredentialsResult(Struct):
    __slots__ = ("user", "error_code", "error_message",)

    def __init__(
        self,
        *,
        user: str = '',
        error_code: int = 0,
        error_message: str | None = '',
    ) -> None:
        self.user = user
        self.error_code = error_code
        self.error_message = error_message
