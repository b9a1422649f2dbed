"""AlterConfigsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class AlterConfigsRequest(Message):
    """AlterConfigsRequest, versions 0 to 2."""

    __slots__ = ("resources", "validate_only",)

    NAME = "AlterConfigsRequest"
    KEY = 33
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        resources: list[AlterConfigsResource] = ABSENT,
        validate_only: bool = False,
    ) -> None:
        self.resources = [] if resources is ABSENT else resources
        self.validate_only = validate_only


class AlterConfigsResource(Struct):
    __slots__ = ("resource_type", "resource_name", "configs",)

    def __init__(
        self,
        *,
        resource_type: int = 0,
        resource_name: str = '',
        configs: list[AlterableConfig] = ABSENT,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configs = [] if configs is ABSENT else configs


class AlterableConfig(Struct):
    __slots__ = ("name", "value",)

    def __init__(
        self,
        *,
        name: str = '',
        value: str | None = '',
    ) -> None:
        self.name = name
        self.value = value
