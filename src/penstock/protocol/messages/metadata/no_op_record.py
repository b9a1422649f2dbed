"""NoOpRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class NoOpRecord(Message, key=20, versions=(0, 0), flexible_from=0):
    """NoOpRecord, versions 0 to 0."""
