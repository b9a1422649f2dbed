"""RenewDelegationTokenRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class RenewDelegationTokenRequest(Message, key=39, versions=(1, 2), flexible_from=2):
    """RenewDelegationTokenRequest, versions 1 to 2."""

    hmac: bytes = b""
    renew_period_ms: int = 0
