"""IncrementalAlterConfigsResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class IncrementalAlterConfigsResponse(Message, key=44, versions=(0, 1), flexible_from=1):
    """IncrementalAlterConfigsResponse, versions 0 to 1."""

    throttle_time_ms: int = 0
    responses: list[AlterConfigsResourceResponse] = ABSENT


class AlterConfigsResourceResponse(Struct):
    error_code: int = 0
    error_message: str | None = ''
    resource_type: int = 0
    resource_name: str = ''
