"""FenceBrokerRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class FenceBrokerRecord(Message):
    """FenceBrokerRecord, versions 0 to 0."""

    __slots__ = ("id", "epoch",)

    NAME = "FenceBrokerRecord"
    KEY = 7
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        id: int = 0,
        epoch: int = 0,
    ) -> None:
        self.id = id
        self.epoch = epoch
