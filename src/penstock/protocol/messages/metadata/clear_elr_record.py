"""ClearElrRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class ClearElrRecord(Message):
    """ClearElrRecord, versions 0 to 0."""

    __slots__ = ("topic_name",)

    NAME = "ClearElrRecord"
    KEY = 28
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        topic_name: str = '',
    ) -> None:
        self.topic_name = topic_name
