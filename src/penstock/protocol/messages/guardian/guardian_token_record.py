"""GuardianTokenRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class GuardianTokenRecord(Message, key=7, versions=(0, 0), flexible_from=0):
    """GuardianTokenRecord, versions 0 to 0."""

    token_id: str = ''
    user: str = ''
    sha256: bytes = b""
    label: str = ''
    created_ms: int = 0
    expires_ms: int = 0
