"""DescribeAclsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class DescribeAclsRequest(Message, key=29, versions=(1, 3), flexible_from=2):
    """DescribeAclsRequest, versions 1 to 3."""

    resource_type_filter: int = 0
    resource_name_filter: str | None = ''
    pattern_type_filter: int = 3
    principal_filter: str | None = ''
    host_filter: str | None = ''
    operation: int = 0
    permission_type: int = 0
