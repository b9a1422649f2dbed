"""AddRaftVoterResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class AddRaftVoterResponse(Message, key=80, versions=(0, 1), flexible_from=0):
    """AddRaftVoterResponse, versions 0 to 1."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ''
