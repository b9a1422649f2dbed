"""BeginTransactionRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class BeginTransactionRecord(Message):
    """BeginTransactionRecord, versions 0 to 0."""

    __slots__ = ("name",)

    NAME = "BeginTransactionRecord"
    KEY = 23
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        name: str | None = None,
    ) -> None:
        self.name = name
