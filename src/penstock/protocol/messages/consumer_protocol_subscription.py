"""ConsumerProtocolSubscription. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class ConsumerProtocolSubscription(Message, key=-1, versions=(0, 3)):
    """ConsumerProtocolSubscription, versions 0 to 3."""

    topics: list[str] = ABSENT
    user_data: bytes | None = None
    owned_partitions: list[TopicPartition] = ABSENT
    generation_id: int = -1
    rack_id: str | None = None


class TopicPartition(Struct):
    topic: str = ''
    partitions: list[int] = ABSENT
