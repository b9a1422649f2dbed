"""GetTelemetrySubscriptionsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import Message, ZERO_UUID


class GetTelemetrySubscriptionsRequest(Message):
    """GetTelemetrySubscriptionsRequest, versions 0 to 0."""

    __slots__ = ("client_instance_id",)

    NAME = "GetTelemetrySubscriptionsRequest"
    KEY = 71
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        client_instance_id: UUID = ZERO_UUID,
    ) -> None:
        self.client_instance_id = client_instance_id
