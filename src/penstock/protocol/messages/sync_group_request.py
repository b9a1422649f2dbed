"""SyncGroupRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class SyncGroupRequest(Message, key=14, versions=(0, 5), flexible_from=4):
    """SyncGroupRequest, versions 0 to 5."""

    group_id: str = ''
    generation_id: int = 0
    member_id: str = ''
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: list[SyncGroupRequestAssignment] = ABSENT


class SyncGroupRequestAssignment(Struct):
    member_id: str = ''
    assignment: bytes = b""
