"""JoinGroupRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class JoinGroupRequest(Message, key=11, versions=(0, 9), flexible_from=6):
    """JoinGroupRequest, versions 0 to 9."""

    group_id: str = ''
    session_timeout_ms: int = 0
    rebalance_timeout_ms: int = -1
    member_id: str = ''
    group_instance_id: str | None = None
    protocol_type: str = ''
    protocols: list[JoinGroupRequestProtocol] = ABSENT
    reason: str | None = None


class JoinGroupRequestProtocol(Struct):
    name: str = ''
    metadata: bytes = b""
