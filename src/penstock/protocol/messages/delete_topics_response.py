"""DeleteTopicsResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class DeleteTopicsResponse(Message, key=20, versions=(1, 6), flexible_from=4):
    """DeleteTopicsResponse, versions 1 to 6."""

    throttle_time_ms: int = 0
    responses: list[DeletableTopicResult] = ABSENT


class DeletableTopicResult(Struct):
    name: str | None = ''
    topic_id: UUID = ZERO_UUID
    error_code: int = 0
    error_message: str | None = None
