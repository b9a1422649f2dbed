"""RemoveUserScramCredentialRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class RemoveUserScramCredentialRecord(Message, key=22, versions=(0, 0), flexible_from=0):
    """RemoveUserScramCredentialRecord, versions 0 to 0."""

    name: str = ''
    mechanism: int = 0
