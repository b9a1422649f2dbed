"""SaslAuthenticateResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class SaslAuthenticateResponse(Message):
    """SaslAuthenticateResponse, versions 0 to 2."""

    __slots__ = ("error_code", "error_message", "auth_bytes", "session_lifetime_ms",)

    NAME = "SaslAuthenticateResponse"
    KEY = 36
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = '',
        auth_bytes: bytes = b"",
        session_lifetime_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.auth_bytes = auth_bytes
        self.session_lifetime_ms = session_lifetime_ms
