"""AlterClientQuotasResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class AlterClientQuotasResponse(Message, key=49, versions=(0, 1), flexible_from=1):
    """AlterClientQuotasResponse, versions 0 to 1."""

    throttle_time_ms: int = 0
    entries: list[EntryData] = ABSENT


class EntryData(Struct):
    error_code: int = 0
    error_message: str | None = ''
    entity: list[EntityData] = ABSENT


class EntityData(Struct):
    entity_type: str = ''
    entity_name: str | None = ''
