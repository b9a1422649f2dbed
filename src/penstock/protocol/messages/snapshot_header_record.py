"""SnapshotHeaderRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class SnapshotHeaderRecord(Message):
    """SnapshotHeaderRecord, versions 0 to 0."""

    __slots__ = ("version", "last_contained_log_timestamp",)

    NAME = "SnapshotHeaderRecord"
    KEY = -1
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        version: int = 0,
        last_contained_log_timestamp: int = 0,
    ) -> None:
        self.version = version
        self.last_contained_log_timestamp = last_contained_log_timestamp
