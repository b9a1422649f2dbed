"""TransactionLogKey. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class TransactionLogKey(Message):
    """TransactionLogKey, versions 0 to 0."""

    __slots__ = ("transactional_id",)

    NAME = "TransactionLogKey"
    KEY = 0
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = None

    def __init__(
        self,
        *,
        transactional_id: str = '',
    ) -> None:
        self.transactional_id = transactional_id
