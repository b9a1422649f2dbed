"""ShareGroupMemberMetadataValue. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message


class ShareGroupMemberMetadataValue(Message, key=10, versions=(0, 0), flexible_from=0):
    """ShareGroupMemberMetadataValue, versions 0 to 0."""

    rack_id: str | None = ''
    client_id: str = ''
    client_host: str = ''
    subscribed_topic_names: list[str] = ABSENT
