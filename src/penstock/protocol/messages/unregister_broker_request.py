"""UnregisterBrokerRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class UnregisterBrokerRequest(Message):
    """UnregisterBrokerRequest, versions 0 to 0."""

    __slots__ = ("broker_id",)

    NAME = "UnregisterBrokerRequest"
    KEY = 64
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        broker_id: int = 0,
    ) -> None:
        self.broker_id = broker_id
