"""SnapshotFooterRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class SnapshotFooterRecord(Message):
    """SnapshotFooterRecord, versions 0 to 0."""

    __slots__ = ("version",)

    NAME = "SnapshotFooterRecord"
    KEY = -1
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        version: int = 0,
    ) -> None:
        self.version = version
