"""ControllerRegistrationResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class ControllerRegistrationResponse(Message):
    """ControllerRegistrationResponse, versions 0 to 0."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message",)

    NAME = "ControllerRegistrationResponse"
    KEY = 70
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = '',
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
