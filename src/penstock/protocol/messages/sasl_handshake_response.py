"""SaslHandshakeResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message


class SaslHandshakeResponse(Message, key=17, versions=(0, 1)):
    """SaslHandshakeResponse, versions 0 to 1."""

    error_code: int = 0
    mechanisms: list[str] = ABSENT
