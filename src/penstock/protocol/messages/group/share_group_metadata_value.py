"""ShareGroupMetadataValue. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class ShareGroupMetadataValue(Message):
    """ShareGroupMetadataValue, versions 0 to 0."""

    __slots__ = ("epoch", "metadata_hash",)

    NAME = "ShareGroupMetadataValue"
    KEY = 11
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        epoch: int = 0,
        metadata_hash: int = 0,
    ) -> None:
        self.epoch = epoch
        self.metadata_hash = metadata_hash
