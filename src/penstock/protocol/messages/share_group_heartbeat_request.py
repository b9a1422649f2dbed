"""ShareGroupHeartbeatRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class ShareGroupHeartbeatRequest(Message):
    """ShareGroupHeartbeatRequest, versions 1 to 1."""

    __slots__ = ("group_id", "member_id", "member_epoch", "rack_id", "subscribed_topic_names",)

    NAME = "ShareGroupHeartbeatRequest"
    KEY = 76
    MIN_VERSION = 1
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        group_id: str = '',
        member_id: str = '',
        member_epoch: int = 0,
        rack_id: str | None = None,
        subscribed_topic_names: list[str] | None = None,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.rack_id = rack_id
        self.subscribed_topic_names = subscribed_topic_names
