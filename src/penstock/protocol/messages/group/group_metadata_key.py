"""GroupMetadataKey. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class GroupMetadataKey(Message, key=2, versions=(0, 0)):
    """GroupMetadataKey, versions 0 to 0."""

    group: str = ''
