"""DescribeUserScramCredentialsResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class DescribeUserScramCredentialsResponse(Message, key=50, versions=(0, 0), flexible_from=0):
    """DescribeUserScramCredentialsResponse, versions 0 to 0."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ''
    results: list[DescribeUserScramCredentialsResult] = ABSENT


class DescribeUserScramCredentialsResult(Struct):
    user: str = ''
    error_code: int = 0
    error_message: str | None = ''
    credential_infos: list[CredentialInfo] = ABSENT


class CredentialInfo(Struct):
    mechanism: int = 0
    iterations: int = 0
