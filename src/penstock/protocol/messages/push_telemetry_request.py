"""PushTelemetryRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import Message, ZERO_UUID


class PushTelemetryRequest(Message):
    """PushTelemetryRequest, versions 0 to 0."""

    __slots__ = ("client_instance_id", "subscription_id", "terminating", "compression_type", "metrics",)

    NAME = "PushTelemetryRequest"
    KEY = 72
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        client_instance_id: UUID = ZERO_UUID,
        subscription_id: int = 0,
        terminating: bool = False,
        compression_type: int = 0,
        metrics: bytes = b"",
    ) -> None:
        self.client_instance_id = client_instance_id
        self.subscription_id = subscription_id
        self.terminating = terminating
        self.compression_type = compression_type
        self.metrics = metrics
