"""EndTransactionRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class EndTransactionRecord(Message):
    """EndTransactionRecord, versions 0 to 0."""

    __slots__ = ()

    NAME = "EndTransactionRecord"
    KEY = 24
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0
