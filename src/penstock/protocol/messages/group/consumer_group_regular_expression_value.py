"""ConsumerGroupRegularExpressionValue. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message


class ConsumerGroupRegularExpressionValue(Message):
    """ConsumerGroupRegularExpressionValue, versions 0 to 0."""

    __slots__ = ("topics", "version", "timestamp",)

    NAME = "ConsumerGroupRegularExpressionValue"
    KEY = 16
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        topics: list[str] = ABSENT,
        version: int = 0,
        timestamp: int = 0,
    ) -> None:
        self.topics = [] if topics is ABSENT else topics
        self.version = version
        self.timestamp = timestamp
