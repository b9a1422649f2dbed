"""AlterConfigsResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class AlterConfigsResponse(Message, key=33, versions=(0, 2), flexible_from=2):
    """AlterConfigsResponse, versions 0 to 2."""

    throttle_time_ms: int = 0
    responses: list[AlterConfigsResourceResponse] = ABSENT


class AlterConfigsResourceResponse(Struct):
    error_code: int = 0
    error_message: str | None = ''
    resource_type: int = 0
    resource_name: str = ''
