"""LeaveGroupResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class LeaveGroupResponse(Message):
    """LeaveGroupResponse, versions 0 to 5."""

    __slots__ = ("throttle_time_ms", "error_code", "members",)

    NAME = "LeaveGroupResponse"
    KEY = 13
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        members: list[MemberResponse] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.members = [] if members is ABSENT else members


class MemberResponse(Struct):
    __slots__ = ("member_id", "group_instance_id", "error_code",)

    def __init__(
        self,
        *,
        member_id: str = '',
        group_instance_id: str | None = '',
        error_code: int = 0,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.error_code = error_code
