"""SaslAuthenticateResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class SaslAuthenticateResponse(Message, key=36, versions=(0, 2), flexible_from=2):
    """SaslAuthenticateResponse, versions 0 to 2."""

    error_code: int = 0
    error_message: str | None = ''
    auth_bytes: bytes = b""
    session_lifetime_ms: int = 0
