"""GuardianLevelRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class GuardianLevelRecord(Message, key=0, versions=(0, 0), flexible_from=0):
    """GuardianLevelRecord, versions 0 to 0."""

    feature_level: int = 0
