"""SaslHandshakeRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class SaslHandshakeRequest(Message, key=17, versions=(0, 1)):
    """SaslHandshakeRequest, versions 0 to 1."""

    mechanism: str = ''
