"""CreateAclsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class CreateAclsRequest(Message, key=30, versions=(1, 3), flexible_from=2):
    """CreateAclsRequest, versions 1 to 3."""

    creations: list[AclCreation] = ABSENT


class AclCreation(Struct):
    resource_type: int = 0
    resource_name: str = ''
    resource_pattern_type: int = 3
    principal: str = ''
    host: str = ''
    operation: int = 0
    permission_type: int = 0
