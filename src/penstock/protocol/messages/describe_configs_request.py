"""DescribeConfigsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class DescribeConfigsRequest(Message):
    """DescribeConfigsRequest, versions 1 to 4."""

    __slots__ = ("resources", "include_synonyms", "include_documentation",)

    NAME = "DescribeConfigsRequest"
    KEY = 32
    MIN_VERSION = 1
    MAX_VERSION = 4
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        resources: list[DescribeConfigsResource] = ABSENT,
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> None:
        self.resources = [] if resources is ABSENT else resources
        self.include_synonyms = include_synonyms
        self.include_documentation = include_documentation


class DescribeConfigsResource(Struct):
    __slots__ = ("resource_type", "resource_name", "configuration_keys",)

    def __init__(
        self,
        *,
        resource_type: int = 0,
        resource_name: str = '',
        configuration_keys: list[str] | None = ABSENT,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configuration_keys = [] if configuration_keys is ABSENT else configuration_keys
