"""ConfigRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class ConfigRecord(Message):
    """ConfigRecord, versions 0 to 0."""

    __slots__ = ("resource_type", "resource_name", "name", "value",)

    NAME = "ConfigRecord"
    KEY = 4
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        resource_type: int = 0,
        resource_name: str = '',
        name: str = '',
        value: str | None = '',
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.name = name
        self.value = value
