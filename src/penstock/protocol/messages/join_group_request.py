"""JoinGroupRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class JoinGroupRequest(Message):
    """JoinGroupRequest, versions 0 to 9."""

    __slots__ = ("group_id", "session_timeout_ms", "rebalance_timeout_ms", "member_id", "group_instance_id", "protocol_type", "protocols", "reason",)

    NAME = "JoinGroupRequest"
    KEY = 11
    MIN_VERSION = 0
    MAX_VERSION = 9
    FLEXIBLE_FROM = 6

    def __init__(
        self,
        *,
        group_id: str = '',
        session_timeout_ms: int = 0,
        rebalance_timeout_ms: int = -1,
        member_id: str = '',
        group_instance_id: str | None = None,
        protocol_type: str = '',
        protocols: list[JoinGroupRequestProtocol] = ABSENT,
        reason: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocols = [] if protocols is ABSENT else protocols
        self.reason = reason


class JoinGroupRequestProtocol(Struct):
    __slots__ = ("name", "metadata",)

    def __init__(
        self,
        *,
        name: str = '',
        metadata: bytes = b"",
    ) -> None:
        self.name = name
        self.metadata = metadata
