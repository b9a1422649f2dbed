"""DescribeAclsResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class DescribeAclsResponse(Message, key=29, versions=(1, 3), flexible_from=2):
    """DescribeAclsResponse, versions 1 to 3."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ''
    resources: list[DescribeAclsResource] = ABSENT


class DescribeAclsResource(Struct):
    resource_type: int = 0
    resource_name: str = ''
    pattern_type: int = 3
    acls: list[AclDescription] = ABSENT


class AclDescription(Struct):
    principal: str = ''
    host: str = ''
    operation: int = 0
    permission_type: int = 0
