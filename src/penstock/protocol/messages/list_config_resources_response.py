"""ListConfigResourcesResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class ListConfigResourcesResponse(Message, key=74, versions=(0, 1), flexible_from=0):
    """ListConfigResourcesResponse, versions 0 to 1."""

    throttle_time_ms: int = 0
    error_code: int = 0
    config_resources: list[ConfigResource] = ABSENT


class ConfigResource(Struct):
    resource_name: str = ''
    resource_type: int = 16
