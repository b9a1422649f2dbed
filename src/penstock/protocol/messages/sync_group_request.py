"""SyncGroupRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class SyncGroupRequest(Message):
    """SyncGroupRequest, versions 0 to 5."""

    __slots__ = ("group_id", "generation_id", "member_id", "group_instance_id", "protocol_type", "protocol_name", "assignments",)

    NAME = "SyncGroupRequest"
    KEY = 14
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        group_id: str = '',
        generation_id: int = 0,
        member_id: str = '',
        group_instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignments: list[SyncGroupRequestAssignment] = ABSENT,
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignments = [] if assignments is ABSENT else assignments


class SyncGroupRequestAssignment(Struct):
    __slots__ = ("member_id", "assignment",)

    def __init__(
        self,
        *,
        member_id: str = '',
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.assignment = assignment
