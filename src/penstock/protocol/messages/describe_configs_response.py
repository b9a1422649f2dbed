"""DescribeConfigsResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class DescribeConfigsResponse(Message, key=32, versions=(1, 4), flexible_from=4):
    """DescribeConfigsResponse, versions 1 to 4."""

    throttle_time_ms: int = 0
    results: list[DescribeConfigsResult] = ABSENT


class DescribeConfigsResult(Struct):
    error_code: int = 0
    error_message: str | None = ''
    resource_type: int = 0
    resource_name: str = ''
    configs: list[DescribeConfigsResourceResult] = ABSENT


class DescribeConfigsResourceResult(Struct):
    name: str = ''
    value: str | None = ''
    read_only: bool = False
    config_source: int = -1
    is_sensitive: bool = False
    synonyms: list[DescribeConfigsSynonym] = ABSENT
    config_type: int = 0
    documentation: str | None = ''


class DescribeConfigsSynonym(Struct):
    name: str = ''
    value: str | None = ''
    source: int = 0
