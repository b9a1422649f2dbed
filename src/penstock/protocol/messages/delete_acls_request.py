"""DeleteAclsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class DeleteAclsRequest(Message, key=31, versions=(1, 3), flexible_from=2):
    """DeleteAclsRequest, versions 1 to 3."""

    filters: list[DeleteAclsFilter] = ABSENT


class DeleteAclsFilter(Struct):
    resource_type_filter: int = 0
    resource_name_filter: str | None = ''
    pattern_type_filter: int = 3
    principal_filter: str | None = ''
    host_filter: str | None = ''
    operation: int = 0
    permission_type: int = 0
