"""ShareGroupStatePartitionMetadataKey. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class ShareGroupStatePartitionMetadataKey(Message, key=15, versions=(0, 0)):
    """ShareGroupStatePartitionMetadataKey, versions 0 to 0."""

    group_id: str = ''
