"""DescribeTelemetryRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import Message, ZERO_UUID


class DescribeTelemetryRequest(Message, key=30001, versions=(0, 0), flexible_from=0):
    """DescribeTelemetryRequest, versions 0 to 0."""

    incarnation_id: UUID = ZERO_UUID
    sequence: int = -1
