"""EndTxnRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class EndTxnRequest(Message):
    """EndTxnRequest, versions 0 to 5."""

    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "committed",)

    NAME = "EndTxnRequest"
    KEY = 26
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        transactional_id: str = '',
        producer_id: int = 0,
        producer_epoch: int = 0,
        committed: bool = False,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.committed = committed
