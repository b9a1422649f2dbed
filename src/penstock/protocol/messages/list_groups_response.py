"""ListGroupsResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class ListGroupsResponse(Message):
    """ListGroupsResponse, versions 0 to 5."""

    __slots__ = ("throttle_time_ms", "error_code", "groups",)

    NAME = "ListGroupsResponse"
    KEY = 16
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        groups: list[ListedGroup] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.groups = [] if groups is ABSENT else groups


class ListedGroup(Struct):
    __slots__ = ("group_id", "protocol_type", "group_state", "group_type",)

    def __init__(
        self,
        *,
        group_id: str = '',
        protocol_type: str = '',
        group_state: str = '',
        group_type: str = '',
    ) -> None:
        self.group_id = group_id
        self.protocol_type = protocol_type
        self.group_state = group_state
        self.group_type = group_type
