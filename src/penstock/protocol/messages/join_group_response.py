"""JoinGroupResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class JoinGroupResponse(Message, key=11, versions=(0, 9), flexible_from=6):
    """JoinGroupResponse, versions 0 to 9."""

    throttle_time_ms: int = 0
    error_code: int = 0
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = ''
    leader: str = ''
    skip_assignment: bool = False
    member_id: str = ''
    members: list[JoinGroupResponseMember] = ABSENT


class JoinGroupResponseMember(Struct):
    member_id: str = ''
    group_instance_id: str | None = None
    metadata: bytes = b""
