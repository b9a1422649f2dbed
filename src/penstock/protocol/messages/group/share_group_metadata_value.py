"""ShareGroupMetadataValue. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class ShareGroupMetadataValue(Message, key=11, versions=(0, 0), flexible_from=0):
    """ShareGroupMetadataValue, versions 0 to 0."""

    epoch: int = 0
    metadata_hash: int = 0
