"""BeginTransactionRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class BeginTransactionRecord(Message, key=23, versions=(0, 0), flexible_from=0):
    """BeginTransactionRecord, versions 0 to 0."""

    name: str | None = None
