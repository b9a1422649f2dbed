"""ListConfigResourcesResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class ListConfigResourcesResponse(Message):
    """ListConfigResourcesResponse, versions 0 to 1."""

    __slots__ = ("throttle_time_ms", "error_code", "config_resources",)

    NAME = "ListConfigResourcesResponse"
    KEY = 74
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        config_resources: list[ConfigResource] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.config_resources = [] if config_resources is ABSENT else config_resources


class ConfigResource(Struct):
    __slots__ = ("resource_name", "resource_type",)

    def __init__(
        self,
        *,
        resource_name: str = '',
        resource_type: int = 16,
    ) -> None:
        self.resource_name = resource_name
        self.resource_type = resource_type
