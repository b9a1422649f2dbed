"""AddOffsetsToTxnResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class AddOffsetsToTxnResponse(Message):
    """AddOffsetsToTxnResponse, versions 0 to 4."""

    __slots__ = ("throttle_time_ms", "error_code",)

    NAME = "AddOffsetsToTxnResponse"
    KEY = 25
    MIN_VERSION = 0
    MAX_VERSION = 4
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
