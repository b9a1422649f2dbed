"""DescribeGroupsResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class DescribeGroupsResponse(Message, key=15, versions=(0, 6), flexible_from=5):
    """DescribeGroupsResponse, versions 0 to 6."""

    throttle_time_ms: int = 0
    groups: list[DescribedGroup] = ABSENT


class DescribedGroup(Struct):
    error_code: int = 0
    error_message: str | None = None
    group_id: str = ''
    group_state: str = ''
    protocol_type: str = ''
    protocol_data: str = ''
    members: list[DescribedGroupMember] = ABSENT
    authorized_operations: int = -2147483648


class DescribedGroupMember(Struct):
    member_id: str = ''
    group_instance_id: str | None = None
    client_id: str = ''
    client_host: str = ''
    member_metadata: bytes = b""
    member_assignment: bytes = b""
