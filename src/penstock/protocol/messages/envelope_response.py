"""EnvelopeResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class EnvelopeResponse(Message):
    """EnvelopeResponse, versions 0 to 0."""

    __slots__ = ("response_data", "error_code",)

    NAME = "EnvelopeResponse"
    KEY = 58
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        response_data: bytes | None = None,
        error_code: int = 0,
    ) -> None:
        self.response_data = response_data
        self.error_code = error_code
