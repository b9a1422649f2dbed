"""IncrementalAlterConfigsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class IncrementalAlterConfigsRequest(Message, key=44, versions=(0, 1), flexible_from=1):
    """IncrementalAlterConfigsRequest, versions 0 to 1."""

    resources: list[AlterConfigsResource] = ABSENT
    validate_only: bool = False


class AlterConfigsResource(Struct):
    resource_type: int = 0
    resource_name: str = ''
    configs: list[AlterableConfig] = ABSENT


class AlterableConfig(Struct):
    name: str = ''
    config_operation: int = 0
    value: str | None = ''
