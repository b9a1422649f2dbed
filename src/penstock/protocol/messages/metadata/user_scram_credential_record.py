"""UserScramCredentialRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class UserScramCredentialRecord(Message, key=11, versions=(0, 0), flexible_from=0):
    """UserScramCredentialRecord, versions 0 to 0."""

    name: str = ''
    mechanism: int = 0
    salt: bytes = b""
    stored_key: bytes = b""
    server_key: bytes = b""
    iterations: int = 0
