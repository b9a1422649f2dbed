"""BrokerRegistrationResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class BrokerRegistrationResponse(Message):
    """BrokerRegistrationResponse, versions 0 to 4."""

    __slots__ = ("throttle_time_ms", "error_code", "broker_epoch",)

    NAME = "BrokerRegistrationResponse"
    KEY = 62
    MIN_VERSION = 0
    MAX_VERSION = 4
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        broker_epoch: int = -1,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.broker_epoch = broker_epoch
