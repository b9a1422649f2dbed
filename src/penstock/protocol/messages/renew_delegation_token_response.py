"""RenewDelegationTokenResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class RenewDelegationTokenResponse(Message, key=39, versions=(1, 2), flexible_from=2):
    """RenewDelegationTokenResponse, versions 1 to 2."""

    error_code: int = 0
    expiry_timestamp_ms: int = 0
    throttle_time_ms: int = 0
