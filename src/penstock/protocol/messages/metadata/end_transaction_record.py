"""EndTransactionRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class EndTransactionRecord(Message, key=24, versions=(0, 0), flexible_from=0):
    """EndTransactionRecord, versions 0 to 0."""
