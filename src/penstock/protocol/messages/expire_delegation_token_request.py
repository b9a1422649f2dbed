"""ExpireDelegationTokenRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class ExpireDelegationTokenRequest(Message):
    """ExpireDelegationTokenRequest, versions 1 to 2."""

    __slots__ = ("hmac", "expiry_time_period_ms",)

    NAME = "ExpireDelegationTokenRequest"
    KEY = 40
    MIN_VERSION = 1
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        hmac: bytes = b"",
        expiry_time_period_ms: int = 0,
    ) -> None:
        self.hmac = hmac
        self.expiry_time_period_ms = expiry_time_period_ms
