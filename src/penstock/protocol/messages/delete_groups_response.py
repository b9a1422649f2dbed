"""DeleteGroupsResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class DeleteGroupsResponse(Message, key=42, versions=(0, 2), flexible_from=2):
    """DeleteGroupsResponse, versions 0 to 2."""

    throttle_time_ms: int = 0
    results: list[DeletableGroupResult] = ABSENT


class DeletableGroupResult(Struct):
    group_id: str = ''
    error_code: int = 0
