"""AlterConfigsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class AlterConfigsRequest(Message, key=33, versions=(0, 2), flexible_from=2):
    """AlterConfigsRequest, versions 0 to 2."""

    resources: list[AlterConfigsResource] = ABSENT
    validate_only: bool = False


class AlterConfigsResource(Struct):
    resource_type: int = 0
    resource_name: str = ''
    configs: list[AlterableConfig] = ABSENT


class AlterableConfig(Struct):
    name: str = ''
    value: str | None = ''
