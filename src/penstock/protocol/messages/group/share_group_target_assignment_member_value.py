"""ShareGroupTargetAssignmentMemberValue. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class ShareGroupTargetAssignmentMemberValue(Message, key=13, versions=(0, 0), flexible_from=0):
    """ShareGroupTargetAssignmentMemberValue, versions 0 to 0."""

    topic_partitions: list[TopicPartition] = ABSENT


class TopicPartition(Struct):
    topic_id: UUID = ZERO_UUID
    partitions: list[int] = ABSENT
