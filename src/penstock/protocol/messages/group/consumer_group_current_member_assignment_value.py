"""ConsumerGroupCurrentMemberAssignmentValue. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class ConsumerGroupCurrentMemberAssignmentValue(Message, key=8, versions=(0, 0), flexible_from=0):
    """ConsumerGroupCurrentMemberAssignmentValue, versions 0 to 0."""

    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: int = 0
    assigned_partitions: list[TopicPartitions] = ABSENT
    partitions_pending_revocation: list[TopicPartitions] = ABSENT


class TopicPartitions(Struct):
    topic_id: UUID = ZERO_UUID
    partitions: list[int] = ABSENT
    assignment_epochs: list[int] | None = ABSENT
