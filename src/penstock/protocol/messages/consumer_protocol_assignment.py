"""ConsumerProtocolAssignment. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class ConsumerProtocolAssignment(Message, key=-1, versions=(0, 3)):
    """ConsumerProtocolAssignment, versions 0 to 3."""

    assigned_partitions: list[TopicPartition] = ABSENT
    user_data: bytes | None = None


class TopicPartition(Struct):
    topic: str = ''
    partitions: list[int] = ABSENT
