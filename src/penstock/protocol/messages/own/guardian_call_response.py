"""GuardianCallResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class GuardianCallResponse(Message, key=30100, versions=(0, 0), flexible_from=0):
    """GuardianCallResponse, versions 0 to 0."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ''
    status: int = 0
    body: bytes = b""
    answered_by: int = -1
    leader_id: int = -1
    age_ms: int = -1
