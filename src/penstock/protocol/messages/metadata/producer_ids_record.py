"""ProducerIdsRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class ProducerIdsRecord(Message):
    """ProducerIdsRecord, versions 0 to 0."""

    __slots__ = ("broker_id", "broker_epoch", "next_producer_id",)

    NAME = "ProducerIdsRecord"
    KEY = 15
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        broker_id: int = 0,
        broker_epoch: int = -1,
        next_producer_id: int = 0,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.next_producer_id = next_producer_id
