"""DeleteAclsResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class DeleteAclsResponse(Message, key=31, versions=(1, 3), flexible_from=2):
    """DeleteAclsResponse, versions 1 to 3."""

    throttle_time_ms: int = 0
    filter_results: list[DeleteAclsFilterResult] = ABSENT


class DeleteAclsFilterResult(Struct):
    error_code: int = 0
    error_message: str | None = ''
    matching_acls: list[DeleteAclsMatchingAcl] = ABSENT


class DeleteAclsMatchingAcl(Struct):
    error_code: int = 0
    error_message: str | None = ''
    resource_type: int = 0
    resource_name: str = ''
    pattern_type: int = 3
    principal: str = ''
    host: str = ''
    operation: int = 0
    permission_type: int = 0
