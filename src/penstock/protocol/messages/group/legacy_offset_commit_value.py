"""LegacyOffsetCommitValue. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class LegacyOffsetCommitValue(Message, key=0, versions=(0, 0)):
    """LegacyOffsetCommitValue, versions 0 to 0."""

    offset: int = 0
    metadata: str = ''
    commit_timestamp: int = 0
