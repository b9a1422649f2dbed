"""ExpireDelegationTokenRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class ExpireDelegationTokenRequest(Message, key=40, versions=(1, 2), flexible_from=2):
    """ExpireDelegationTokenRequest, versions 1 to 2."""

    hmac: bytes = b""
    expiry_time_period_ms: int = 0
