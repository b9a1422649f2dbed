"""GuardianCommandRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import Message, ZERO_UUID


class GuardianCommandRecord(Message, key=1, versions=(0, 0), flexible_from=0):
    """GuardianCommandRecord, versions 0 to 0."""

    request_id: UUID = ZERO_UUID
    principal: str = ''
    wall_ms: int = 0
    command: str = ''
    subject: str = ''
    body_sha256: bytes = b""
