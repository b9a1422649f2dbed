"""DescribeQuotaUsageResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class DescribeQuotaUsageResponse(Message, key=30000, versions=(0, 0), flexible_from=0):
    """DescribeQuotaUsageResponse, versions 0 to 0."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ''
    broker_id: int = 0
    active_controller: bool = False
    matching: int = 0
    shared_total: int = 0
    usages: list[QuotaUsage] = ABSENT


class QuotaUsage(Struct):
    key: str = ''
    level: int = 0
    entity: list[EntityData] = ABSENT
    user: str | None = ''
    client_id: str | None = ''
    address: str | None = ''
    limit: float = 0.0
    used: float = 0.0
    throttled_for_ms: int = 0
    held_back_ms: int = 0
    throttle_time_total_ms: int = 0


class EntityData(Struct):
    entity_type: str = ''
    entity_name: str | None = ''
