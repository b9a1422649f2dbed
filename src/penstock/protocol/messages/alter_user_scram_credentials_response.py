"""AlterUserScramCredentialsResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class AlterUserScramCredentialsResponse(Message, key=51, versions=(0, 0), flexible_from=0):
    """AlterUserScramCredentialsResponse, versions 0 to 0."""

    throttle_time_ms: int = 0
    results: list[AlterUserScramCredentialsResult] = ABSENT


class AlterUserScramCredentialsResult(Struct):
    user: str = ''
    error_code: int = 0
    error_message: str | None = ''
