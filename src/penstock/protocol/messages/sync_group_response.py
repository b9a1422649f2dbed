"""SyncGroupResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class SyncGroupResponse(Message, key=14, versions=(0, 5), flexible_from=4):
    """SyncGroupResponse, versions 0 to 5."""

    throttle_time_ms: int = 0
    error_code: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""
