"""LeaveGroupRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class LeaveGroupRequest(Message, key=13, versions=(0, 5), flexible_from=4):
    """LeaveGroupRequest, versions 0 to 5."""

    group_id: str = ''
    member_id: str = ''
    members: list[MemberIdentity] = ABSENT


class MemberIdentity(Struct):
    member_id: str = ''
    group_instance_id: str | None = None
    reason: str | None = None
