"""AlterClientQuotasResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class AlterClientQuotasResponse(Message):
    """AlterClientQuotasResponse, versions 0 to 1."""

    __slots__ = ("throttle_time_ms", "entries",)

    NAME = "AlterClientQuotasResponse"
    KEY = 49
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 1

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        entries: list[EntryData] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.entries = [] if entries is ABSENT else entries


class EntryData(Struct):
    __slots__ = ("error_code", "error_message", "entity",)

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = '',
        entity: list[EntityData] = ABSENT,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.entity = [] if entity is ABSENT else entity


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
