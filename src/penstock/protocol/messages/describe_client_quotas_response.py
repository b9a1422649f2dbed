"""DescribeClientQuotasResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class DescribeClientQuotasResponse(Message, key=48, versions=(0, 1), flexible_from=1):
    """DescribeClientQuotasResponse, versions 0 to 1."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ''
    entries: list[EntryData] | None = ABSENT


class EntryData(Struct):
    entity: list[EntityData] = ABSENT
    values: list[ValueData] = ABSENT


class EntityData(Struct):
    entity_type: str = ''
    entity_name: str | None = ''


class ValueData(Struct):
    key: str = ''
    value: float = 0.0
