"""LeaveGroupResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class LeaveGroupResponse(Message, key=13, versions=(0, 5), flexible_from=4):
    """LeaveGroupResponse, versions 0 to 5."""

    throttle_time_ms: int = 0
    error_code: int = 0
    members: list[MemberResponse] = ABSENT


class MemberResponse(Struct):
    member_id: str = ''
    group_instance_id: str | None = ''
    error_code: int = 0
