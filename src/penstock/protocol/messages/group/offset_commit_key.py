"""OffsetCommitKey. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class OffsetCommitKey(Message, key=1, versions=(0, 0)):
    """OffsetCommitKey, versions 0 to 0."""

    group: str = ''
    topic: str = ''
    partition: int = 0
