"""DescribeDelegationTokenResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class DescribeDelegationTokenResponse(Message, key=41, versions=(1, 3), flexible_from=2):
    """DescribeDelegationTokenResponse, versions 1 to 3."""

    error_code: int = 0
    tokens: list[DescribedDelegationToken] = ABSENT
    throttle_time_ms: int = 0


class DescribedDelegationToken(Struct):
    principal_type: str = ''
    principal_name: str = ''
    token_requester_principal_type: str = ''
    token_requester_principal_name: str = ''
    issue_timestamp: int = 0
    expiry_timestamp: int = 0
    max_timestamp: int = 0
    token_id: str = ''
    hmac: bytes = b""
    renewers: list[DescribedDelegationTokenRenewer] = ABSENT


class DescribedDelegationTokenRenewer(Struct):
    principal_type: str = ''
    principal_name: str = ''
