"""SnapshotFooterRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class SnapshotFooterRecord(Message, key=-1, versions=(0, 0), flexible_from=0):
    """SnapshotFooterRecord, versions 0 to 0."""

    version: int = 0
