"""RemoveTopicRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import Message, ZERO_UUID


class RemoveTopicRecord(Message, key=9, versions=(0, 0), flexible_from=0):
    """RemoveTopicRecord, versions 0 to 0."""

    topic_id: UUID = ZERO_UUID
