"""ClearElrRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class ClearElrRecord(Message, key=28, versions=(0, 0), flexible_from=0):
    """ClearElrRecord, versions 0 to 0."""

    topic_name: str = ''
