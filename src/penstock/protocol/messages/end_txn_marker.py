"""EndTxnMarker. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class EndTxnMarker(Message):
    """EndTxnMarker, versions 0 to 0."""

    __slots__ = ("coordinator_epoch",)

    NAME = "EndTxnMarker"
    KEY = -1
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = None

    def __init__(
        self,
        *,
        coordinator_epoch: int = 0,
    ) -> None:
        self.coordinator_epoch = coordinator_epoch
