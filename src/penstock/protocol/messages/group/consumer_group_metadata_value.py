"""ConsumerGroupMetadataValue. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class ConsumerGroupMetadataValue(Message, key=3, versions=(0, 0), flexible_from=0):
    """ConsumerGroupMetadataValue, versions 0 to 0."""

    epoch: int = 0
    metadata_hash: int = 0
