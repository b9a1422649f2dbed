"""KRaftVersionRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class KRaftVersionRecord(Message):
    """KRaftVersionRecord, versions 0 to 0."""

    __slots__ = ("version", "kraft_version",)

    NAME = "KRaftVersionRecord"
    KEY = -1
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        version: int = 0,
        kraft_version: int = 0,
    ) -> None:
        self.version = version
        self.kraft_version = kraft_version
