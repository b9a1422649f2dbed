"""CreateAclsResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class CreateAclsResponse(Message, key=30, versions=(1, 3), flexible_from=2):
    """CreateAclsResponse, versions 1 to 3."""

    throttle_time_ms: int = 0
    results: list[AclCreationResult] = ABSENT


class AclCreationResult(Struct):
    error_code: int = 0
    error_message: str | None = ''
