"""DescribeQuotaUsageRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class DescribeQuotaUsageRequest(Message, key=30000, versions=(0, 0), flexible_from=0):
    """DescribeQuotaUsageRequest, versions 0 to 0."""

    components: list[ComponentData] = ABSENT
    throttled_only: bool = False
    max_usages: int = 100


class ComponentData(Struct):
    entity_type: str = ''
    match_type: int = 0
    match: str | None = ''
