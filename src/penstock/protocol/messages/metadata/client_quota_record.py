"""ClientQuotaRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class ClientQuotaRecord(Message):
    """ClientQuotaRecord, versions 0 to 0."""

    __slots__ = ("entity", "key", "value", "remove",)

    NAME = "ClientQuotaRecord"
    KEY = 14
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        entity: list[EntityData] = ABSENT,
        key: str = '',
        value: float = 0.0,
        remove: bool = False,
    ) -> None:
        self.entity = [] if entity is ABSENT else entity
        self.key = key
        self.value = value
        self.remove = remove


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
