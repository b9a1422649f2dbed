"""AbortTransactionRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class AbortTransactionRecord(Message):
    """AbortTransactionRecord, versions 0 to 0."""

    __slots__ = ("reason",)

    NAME = "AbortTransactionRecord"
    KEY = 25
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        reason: str | None = None,
    ) -> None:
        self.reason = reason
