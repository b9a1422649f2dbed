"""CreateAclsResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class CreateAclsResponse(Message):
    """CreateAclsResponse, versions 1 to 3."""

    __slots__ = ("throttle_time_ms", "results",)

    NAME = "CreateAclsResponse"
    KEY = 30
    MIN_VERSION = 1
    MAX_VERSION = 3
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[AclCreationResult] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is ABSENT else results


class AclCreationResult(Struct):
    __slots__ = ("error_code", "error_message",)

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = '',
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
