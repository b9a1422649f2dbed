"""AbortTransactionRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class AbortTransactionRecord(Message, key=25, versions=(0, 0), flexible_from=0):
    """AbortTransactionRecord, versions 0 to 0."""

    reason: str | None = None
