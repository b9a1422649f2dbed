"""GetTelemetrySubscriptionsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import Message, ZERO_UUID


class GetTelemetrySubscriptionsRequest(Message, key=71, versions=(0, 0), flexible_from=0):
    """GetTelemetrySubscriptionsRequest, versions 0 to 0."""

    client_instance_id: UUID = ZERO_UUID
