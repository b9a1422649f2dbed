"""KRaftVersionRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class KRaftVersionRecord(Message, key=-1, versions=(0, 0), flexible_from=0):
    """KRaftVersionRecord, versions 0 to 0."""

    version: int = 0
    kraft_version: int = 0
