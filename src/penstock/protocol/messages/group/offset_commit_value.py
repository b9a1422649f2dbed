"""OffsetCommitValue. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import Message, ZERO_UUID


class OffsetCommitValue(Message, key=1, versions=(0, 4), flexible_from=4):
    """OffsetCommitValue, versions 0 to 4."""

    offset: int = 0
    leader_epoch: int = -1
    metadata: str = ''
    commit_timestamp: int = 0
    expire_timestamp: int = -1
    topic_id: UUID = ZERO_UUID
