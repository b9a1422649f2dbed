"""GuardianRemoveUserRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class GuardianRemoveUserRecord(Message, key=6, versions=(0, 0), flexible_from=0):
    """GuardianRemoveUserRecord, versions 0 to 0."""

    name: str = ''
