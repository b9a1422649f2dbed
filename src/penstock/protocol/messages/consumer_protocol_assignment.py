"""ConsumerProtocolAssignment. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class ConsumerProtocolAssignment(Message):
    """ConsumerProtocolAssignment, versions 0 to 3."""

    __slots__ = ("assigned_partitions", "user_data",)

    NAME = "ConsumerProtocolAssignment"
    KEY = -1
    MIN_VERSION = 0
    MAX_VERSION = 3
    FLEXIBLE_FROM = None

    def __init__(
        self,
        *,
        assigned_partitions: list[TopicPartition] = ABSENT,
        user_data: bytes | None = None,
    ) -> None:
        self.assigned_partitions = [] if assigned_partitions is ABSENT else assigned_partitions
        self.user_data = user_data


class TopicPartition(Struct):
    __slots__ = ("topic", "partitions",)

    def __init__(
        self,
        *,
        topic: str = '',
        partitions: list[int] = ABSENT,
    ) -> None:
        self.topic = topic
        self.partitions = [] if partitions is ABSENT else partitions
