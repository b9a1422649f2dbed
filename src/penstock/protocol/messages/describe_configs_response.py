"""DescribeConfigsResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class DescribeConfigsResponse(Message):
    """DescribeConfigsResponse, versions 1 to 4."""

    __slots__ = ("throttle_time_ms", "results",)

    NAME = "DescribeConfigsResponse"
    KEY = 32
    MIN_VERSION = 1
    MAX_VERSION = 4
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[DescribeConfigsResult] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is ABSENT else results


class DescribeConfigsResult(Struct):
    __slots__ = ("error_code", "error_message", "resource_type", "resource_name", "configs",)

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = '',
        resource_type: int = 0,
        resource_name: str = '',
        configs: list[DescribeConfigsResourceResult] = ABSENT,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configs = [] if configs is ABSENT else configs


class DescribeConfigsResourceResult(Struct):
    __slots__ = ("name", "value", "read_only", "config_source", "is_sensitive", "synonyms", "config_type", "documentation",)

    def __init__(
        self,
        *,
        name: str = '',
        value: str | None = '',
        read_only: bool = False,
        config_source: int = -1,
        is_sensitive: bool = False,
        synonyms: list[DescribeConfigsSynonym] = ABSENT,
        config_type: int = 0,
        documentation: str | None = '',
    ) -> None:
        self.name = name
        self.value = value
        self.read_only = read_only
        self.config_source = config_source
        self.is_sensitive = is_sensitive
        self.synonyms = [] if synonyms is ABSENT else synonyms
        self.config_type = config_type
        self.documentation = documentation


class DescribeConfigsSynonym(Struct):
    __slots__ = ("name", "value", "source",)

    def __init__(
        self,
        *,
        name: str = '',
        value: str | None = '',
        source: int = 0,
    ) -> None:
        self.name = name
        self.value = value
        self.source = source
