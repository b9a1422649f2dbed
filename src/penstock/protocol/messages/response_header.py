"""ResponseHeader. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class ResponseHeader(Message, key=-1, versions=(0, 1), flexible_from=1):
    """ResponseHeader, versions 0 to 1."""

    correlation_id: int = 0
