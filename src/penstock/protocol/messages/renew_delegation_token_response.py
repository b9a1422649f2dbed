"""RenewDelegationTokenResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class RenewDelegationTokenResponse(Message):
    """RenewDelegationTokenResponse, versions 1 to 2."""

    __slots__ = ("error_code", "expiry_timestamp_ms", "throttle_time_ms",)

    NAME = "RenewDelegationTokenResponse"
    KEY = 39
    MIN_VERSION = 1
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        error_code: int = 0,
        expiry_timestamp_ms: int = 0,
        throttle_time_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.expiry_timestamp_ms = expiry_timestamp_ms
        self.throttle_time_ms = throttle_time_ms
