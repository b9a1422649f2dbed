"""SaslAuthenticateRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class SaslAuthenticateRequest(Message, key=36, versions=(0, 2), flexible_from=2):
    """SaslAuthenticateRequest, versions 0 to 2."""

    auth_bytes: bytes = b""
