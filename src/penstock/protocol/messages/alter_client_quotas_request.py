"""AlterClientQuotasRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class AlterClientQuotasRequest(Message):
    """AlterClientQuotasRequest, versions 0 to 1."""

    __slots__ = ("entries", "validate_only",)

    NAME = "AlterClientQuotasRequest"
    KEY = 49
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 1

    def __init__(
        self,
        *,
        entries: list[EntryData] = ABSENT,
        validate_only: bool = False,
    ) -> None:
        self.entries = [] if entries is ABSENT else entries
        self.validate_only = validate_only


class EntryData(Struct):
    __slots__ = ("entity", "ops",)

    def __init__(
        self,
        *,
        entity: list[EntityData] = ABSENT,
        ops: list[OpData] = ABSENT,
    ) -> None:
        self.entity = [] if entity is ABSENT else entity
        self.ops = [] if ops is ABSENT else ops


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


class OpData(Struct):
    __slots__ = ("key", "value", "remove",)

    def __init__(
        self,
        *,
        key: str = '',
        value: float = 0.0,
        remove: bool = False,
    ) -> None:
        self.key = key
        self.value = value
        self.remove = remove
