"""DeleteTopicsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class DeleteTopicsRequest(Message, key=20, versions=(1, 6), flexible_from=4):
    """DeleteTopicsRequest, versions 1 to 6."""

    topics: list[DeleteTopicState] = ABSENT
    topic_names: list[str] = ABSENT
    timeout_ms: int = 0


class DeleteTopicState(Struct):
    name: str | None = None
    topic_id: UUID = ZERO_UUID
