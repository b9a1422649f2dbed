"""GuardianRemoveTokenRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class GuardianRemoveTokenRecord(Message, key=8, versions=(0, 0), flexible_from=0):
    """GuardianRemoveTokenRecord, versions 0 to 0."""

    token_id: str = ''
