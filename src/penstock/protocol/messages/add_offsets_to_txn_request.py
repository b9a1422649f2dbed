"""AddOffsetsToTxnRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class AddOffsetsToTxnRequest(Message):
    """AddOffsetsToTxnRequest, versions 0 to 4."""

    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "group_id",)

    NAME = "AddOffsetsToTxnRequest"
    KEY = 25
    MIN_VERSION = 0
    MAX_VERSION = 4
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        transactional_id: str = '',
        producer_id: int = 0,
        producer_epoch: int = 0,
        group_id: str = '',
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.group_id = group_id
