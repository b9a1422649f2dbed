"""ListGroupsResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class ListGroupsResponse(Message, key=16, versions=(0, 5), flexible_from=3):
    """ListGroupsResponse, versions 0 to 5."""

    throttle_time_ms: int = 0
    error_code: int = 0
    groups: list[ListedGroup] = ABSENT


class ListedGroup(Struct):
    group_id: str = ''
    protocol_type: str = ''
    group_state: str = ''
    group_type: str = ''
