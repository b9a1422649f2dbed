"""ConsumerProtocolSubscription. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class ConsumerProtocolSubscription(Message):
    """ConsumerProtocolSubscription, versions 0 to 3."""

    __slots__ = ("topics", "user_data", "owned_partitions", "generation_id", "rack_id",)

    NAME = "ConsumerProtocolSubscription"
    KEY = -1
    MIN_VERSION = 0
    MAX_VERSION = 3
    FLEXIBLE_FROM = None

    def __init__(
        self,
        *,
        topics: list[str] = ABSENT,
        user_data: bytes | None = None,
        owned_partitions: list[TopicPartition] = ABSENT,
        generation_id: int = -1,
        rack_id: str | None = None,
    ) -> None:
        self.topics = [] if topics is ABSENT else topics
        self.user_data = user_data
        self.owned_partitions = [] if owned_partitions is ABSENT else owned_partitions
        self.generation_id = generation_id
        self.rack_id = rack_id


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
