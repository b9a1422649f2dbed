"""RequestHeader. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class RequestHeader(Message, key=-1, versions=(1, 2), flexible_from=2):
    """RequestHeader, versions 1 to 2."""

    request_api_key: int = 0
    request_api_version: int = 0
    correlation_id: int = 0
    client_id: str | None = ''
