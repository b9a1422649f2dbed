"""GuardianCallRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import Message, ZERO_UUID


class GuardianCallRequest(Message, key=30100, versions=(0, 0), flexible_from=0):
    """GuardianCallRequest, versions 0 to 0."""

    method: str = ''
    path: str = ''
    body: bytes = b""
    request_id: UUID = ZERO_UUID
    on_behalf_of: str | None = None
    token_id: str | None = None
