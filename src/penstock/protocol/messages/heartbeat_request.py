"""HeartbeatRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class HeartbeatRequest(Message, key=12, versions=(0, 4), flexible_from=4):
    """HeartbeatRequest, versions 0 to 4."""

    group_id: str = ''
    generation_id: int = 0
    member_id: str = ''
    group_instance_id: str | None = None
