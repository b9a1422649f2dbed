"""OffsetCommitKey. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class OffsetCommitKey(Message):
    """OffsetCommitKey, versions 0 to 0."""

    __slots__ = ("group", "topic", "partition",)

    NAME = "OffsetCommitKey"
    KEY = 1
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = None

    def __init__(
        self,
        *,
        group: str = '',
        topic: str = '',
        partition: int = 0,
    ) -> None:
        self.group = group
        self.topic = topic
        self.partition = partition
