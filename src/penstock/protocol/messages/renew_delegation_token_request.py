"""RenewDelegationTokenRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class RenewDelegationTokenRequest(Message):
    """RenewDelegationTokenRequest, versions 1 to 2."""

    __slots__ = ("hmac", "renew_period_ms",)

    NAME = "RenewDelegationTokenRequest"
    KEY = 39
    MIN_VERSION = 1
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        hmac: bytes = b"",
        renew_period_ms: int = 0,
    ) -> None:
        self.hmac = hmac
        self.renew_period_ms = renew_period_ms
