"""CreatePartitionsResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class CreatePartitionsResponse(Message, key=37, versions=(0, 3), flexible_from=2):
    """CreatePartitionsResponse, versions 0 to 3."""

    throttle_time_ms: int = 0
    results: list[CreatePartitionsTopicResult] = ABSENT


class CreatePartitionsTopicResult(Struct):
    name: str = ''
    error_code: int = 0
    error_message: str | None = None
