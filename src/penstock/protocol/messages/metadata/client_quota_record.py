"""ClientQuotaRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class ClientQuotaRecord(Message, key=14, versions=(0, 0), flexible_from=0):
    """ClientQuotaRecord, versions 0 to 0."""

    entity: list[EntityData] = ABSENT
    key: str = ''
    value: float = 0.0
    remove: bool = False


class EntityData(Struct):
    entity_type: str = ''
    entity_name: str | None = ''
