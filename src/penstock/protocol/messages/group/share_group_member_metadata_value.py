"""ShareGroupMemberMetadataValue. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message


class ShareGroupMemberMetadataValue(Message):
    """ShareGroupMemberMetadataValue, versions 0 to 0."""

    __slots__ = ("rack_id", "client_id", "client_host", "subscribed_topic_names",)

    NAME = "ShareGroupMemberMetadataValue"
    KEY = 10
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        rack_id: str | None = '',
        client_id: str = '',
        client_host: str = '',
        subscribed_topic_names: list[str] = ABSENT,
    ) -> None:
        self.rack_id = rack_id
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names = [] if subscribed_topic_names is ABSENT else subscribed_topic_names
