"""ShareGroupDescribeResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class ShareGroupDescribeResponse(Message, key=77, versions=(1, 1), flexible_from=0):
    """ShareGroupDescribeResponse, versions 1 to 1."""

    throttle_time_ms: int = 0
    groups: list[DescribedGroup] = ABSENT


class DescribedGroup(Struct):
    error_code: int = 0
    error_message: str | None = None
    group_id: str = ''
    group_state: str = ''
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ''
    members: list[Member] = ABSENT
    authorized_operations: int = -2147483648


class Member(Struct):
    member_id: str = ''
    rack_id: str | None = None
    member_epoch: int = 0
    client_id: str = ''
    client_host: str = ''
    subscribed_topic_names: list[str] = ABSENT
    assignment: Assignment = ABSENT


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = ABSENT


class TopicPartitions(Struct):
    topic_id: UUID = ZERO_UUID
    topic_name: str = ''
    partitions: list[int] = ABSENT
