"""LeaveGroupRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class LeaveGroupRequest(Message):
    """LeaveGroupRequest, versions 0 to 5."""

    __slots__ = ("group_id", "member_id", "members",)

    NAME = "LeaveGroupRequest"
    KEY = 13
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        group_id: str = '',
        member_id: str = '',
        members: list[MemberIdentity] = ABSENT,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.members = [] if members is ABSENT else members


class MemberIdentity(Struct):
    __slots__ = ("member_id", "group_instance_id", "reason",)

    def __init__(
        self,
        *,
        member_id: str = '',
        group_instance_id: str | None = None,
        reason: str | None = None,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.reason = reason
