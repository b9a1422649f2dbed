"""RemoveTopicRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import Message, ZERO_UUID


class RemoveTopicRecord(Message):
    """RemoveTopicRecord, versions 0 to 0."""

    __slots__ = ("topic_id",)

    NAME = "RemoveTopicRecord"
    KEY = 9
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        topic_id: UUID = ZERO_UUID,
    ) -> None:
        self.topic_id = topic_id
