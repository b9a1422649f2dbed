"""BrokerHeartbeatResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class BrokerHeartbeatResponse(Message, key=63, versions=(0, 2), flexible_from=0):
    """BrokerHeartbeatResponse, versions 0 to 2."""

    throttle_time_ms: int = 0
    error_code: int = 0
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False
