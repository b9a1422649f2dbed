"""GetTelemetrySubscriptionsResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, ZERO_UUID


class GetTelemetrySubscriptionsResponse(Message, key=71, versions=(0, 0), flexible_from=0):
    """GetTelemetrySubscriptionsResponse, versions 0 to 0."""

    throttle_time_ms: int = 0
    error_code: int = 0
    client_instance_id: UUID = ZERO_UUID
    subscription_id: int = 0
    accepted_compression_types: list[int] = ABSENT
    push_interval_ms: int = 0
    telemetry_max_bytes: int = 0
    delta_temporality: bool = False
    requested_metrics: list[str] = ABSENT
