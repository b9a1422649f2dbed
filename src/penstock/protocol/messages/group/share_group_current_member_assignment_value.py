"""ShareGroupCurrentMemberAssignmentValue. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class ShareGroupCurrentMemberAssignmentValue(Message, key=14, versions=(0, 0), flexible_from=0):
    """ShareGroupCurrentMemberAssignmentValue, versions 0 to 0."""

    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: int = 0
    assigned_partitions: list[TopicPartitions] = ABSENT


class TopicPartitions(Struct):
    topic_id: UUID = ZERO_UUID
    partitions: list[int] = ABSENT
