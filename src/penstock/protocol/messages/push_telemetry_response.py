"""PushTelemetryResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class PushTelemetryResponse(Message, key=72, versions=(0, 0), flexible_from=0):
    """PushTelemetryResponse, versions 0 to 0."""

    throttle_time_ms: int = 0
    error_code: int = 0
