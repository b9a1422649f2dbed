"""LegacyOffsetCommitValue. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class LegacyOffsetCommitValue(Message):
    """LegacyOffsetCommitValue, versions 0 to 0."""

    __slots__ = ("offset", "metadata", "commit_timestamp",)

    NAME = "LegacyOffsetCommitValue"
    KEY = 0
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = None

    def __init__(
        self,
        *,
        offset: int = 0,
        metadata: str = '',
        commit_timestamp: int = 0,
    ) -> None:
        self.offset = offset
        self.metadata = metadata
        self.commit_timestamp = commit_timestamp
