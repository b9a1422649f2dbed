"""StreamsGroupMemberMetadataKey. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class StreamsGroupMemberMetadataKey(Message, key=19, versions=(0, 0)):
    """StreamsGroupMemberMetadataKey, versions 0 to 0."""

    group_id: str = ''
    member_id: str = ''
