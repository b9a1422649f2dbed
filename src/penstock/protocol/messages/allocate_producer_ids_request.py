"""AllocateProducerIdsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class AllocateProducerIdsRequest(Message):
    """AllocateProducerIdsRequest, versions 0 to 0."""

    __slots__ = ("broker_id", "broker_epoch",)

    NAME = "AllocateProducerIdsRequest"
    KEY = 67
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        broker_id: int = 0,
        broker_epoch: int = -1,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
