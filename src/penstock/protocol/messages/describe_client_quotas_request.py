"""DescribeClientQuotasRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class DescribeClientQuotasRequest(Message, key=48, versions=(0, 1), flexible_from=1):
    """DescribeClientQuotasRequest, versions 0 to 1."""

    components: list[ComponentData] = ABSENT
    strict: bool = False


class ComponentData(Struct):
    entity_type: str = ''
    match_type: int = 0
    match: str | None = ''
