"""ShareUpdateKey. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import Message, ZERO_UUID


class ShareUpdateKey(Message):
    """ShareUpdateKey, versions 0 to 0."""

    __slots__ = ("group_id", "topic_id", "partition",)

    NAME = "ShareUpdateKey"
    KEY = 1
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = None

    def __init__(
        self,
        *,
        group_id: str = '',
        topic_id: UUID = ZERO_UUID,
        partition: int = 0,
    ) -> None:
        self.group_id = group_id
        self.topic_id = topic_id
        self.partition = partition
