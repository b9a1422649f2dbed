"""ConsumerGroupMemberMetadataValue. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class ConsumerGroupMemberMetadataValue(Message, key=5, versions=(0, 0), flexible_from=0):
    """ConsumerGroupMemberMetadataValue, versions 0 to 0."""

    instance_id: str | None = ''
    rack_id: str | None = ''
    client_id: str = ''
    client_host: str = ''
    subscribed_topic_names: list[str] = ABSENT
    subscribed_topic_regex: str | None = ''
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = ''
    classic_member_metadata: ClassicMemberMetadata | None = ABSENT


class ClassicMemberMetadata(Struct):
    session_timeout_ms: int = 0
    supported_protocols: list[ClassicProtocol] = ABSENT


class ClassicProtocol(Struct):
    name: str = ''
    metadata: bytes = b""
