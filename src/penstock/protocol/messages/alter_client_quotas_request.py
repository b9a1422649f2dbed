"""AlterClientQuotasRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class AlterClientQuotasRequest(Message, key=49, versions=(0, 1), flexible_from=1):
    """AlterClientQuotasRequest, versions 0 to 1."""

    entries: list[EntryData] = ABSENT
    validate_only: bool = False


class EntryData(Struct):
    entity: list[EntityData] = ABSENT
    ops: list[OpData] = ABSENT


class EntityData(Struct):
    entity_type: str = ''
    entity_name: str | None = ''


class OpData(Struct):
    key: str = ''
    value: float = 0.0
    remove: bool = False
