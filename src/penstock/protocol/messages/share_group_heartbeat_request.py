"""ShareGroupHeartbeatRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class ShareGroupHeartbeatRequest(Message, key=76, versions=(1, 1), flexible_from=0):
    """ShareGroupHeartbeatRequest, versions 1 to 1."""

    group_id: str = ''
    member_id: str = ''
    member_epoch: int = 0
    rack_id: str | None = None
    subscribed_topic_names: list[str] | None = None
