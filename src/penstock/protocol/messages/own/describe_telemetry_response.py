"""DescribeTelemetryResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class DescribeTelemetryResponse(Message, key=30001, versions=(0, 0), flexible_from=0):
    """DescribeTelemetryResponse, versions 0 to 0."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ''
    frame: bytes = b""
