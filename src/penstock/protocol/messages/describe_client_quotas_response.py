"""DescribeClientQuotasResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class DescribeClientQuotasResponse(Message):
    """DescribeClientQuotasResponse, versions 0 to 1."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message", "entries",)

    NAME = "DescribeClientQuotasResponse"
    KEY = 48
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 1

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = '',
        entries: list[EntryData] | None = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.entries = [] if entries is ABSENT else entries


class EntryData(Struct):
    __slots__ = ("entity", "values",)

    def __init__(
        self,
        *,
        entity: list[EntityData] = ABSENT,
        values: list[ValueData] = ABSENT,
    ) -> None:
        self.entity = [] if entity is ABSENT else entity
        self.values = [] if values is ABSENT else values


class EntityData(Struct):
    __slots__ = ("entity_type", "entity_name",)

    def __init__(
        self,
        *,
        entity_type: str = '',
        entity_name: str | None = '',
    ) -> None:
        self.entity_type = entity_type
        self.entity_name = entity_name


class ValueData(Struct):
    __slots__ = ("key", "value",)

    def __init__(
        self,
        *,
        key: str = '',
        value: float = 0.0,
    ) -> None:
        self.key = key
        self.value = value
