"""CreateDelegationTokenResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class CreateDelegationTokenResponse(Message, key=38, versions=(1, 3), flexible_from=2):
    """CreateDelegationTokenResponse, versions 1 to 3."""

    error_code: int = 0
    principal_type: str = ''
    principal_name: str = ''
    token_requester_principal_type: str = ''
    token_requester_principal_name: str = ''
    issue_timestamp_ms: int = 0
    expiry_timestamp_ms: int = 0
    max_timestamp_ms: int = 0
    token_id: str = ''
    hmac: bytes = b""
    throttle_time_ms: int = 0
