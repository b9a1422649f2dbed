"""HeartbeatRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class HeartbeatRequest(Message):
    """HeartbeatRequest, versions 0 to 4."""

    __slots__ = ("group_id", "generation_id", "member_id", "group_instance_id",)

    NAME = "HeartbeatRequest"
    KEY = 12
    MIN_VERSION = 0
    MAX_VERSION = 4
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        group_id: str = '',
        generation_id: int = 0,
        member_id: str = '',
        group_instance_id: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
