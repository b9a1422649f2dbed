"""ShareUpdateKey. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import Message, ZERO_UUID


class ShareUpdateKey(Message, key=1, versions=(0, 0)):
    """ShareUpdateKey, versions 0 to 0."""

    group_id: str = ''
    topic_id: UUID = ZERO_UUID
    partition: int = 0
