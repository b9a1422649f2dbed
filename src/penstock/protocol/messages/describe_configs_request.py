"""DescribeConfigsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class DescribeConfigsRequest(Message, key=32, versions=(1, 4), flexible_from=4):
    """DescribeConfigsRequest, versions 1 to 4."""

    resources: list[DescribeConfigsResource] = ABSENT
    include_synonyms: bool = False
    include_documentation: bool = False


class DescribeConfigsResource(Struct):
    resource_type: int = 0
    resource_name: str = ''
    configuration_keys: list[str] | None = ABSENT
