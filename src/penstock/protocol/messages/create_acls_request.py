"""CreateAclsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class CreateAclsRequest(Message):
    """CreateAclsRequest, versions 1 to 3."""

    __slots__ = ("creations",)

    NAME = "CreateAclsRequest"
    KEY = 30
    MIN_VERSION = 1
    MAX_VERSION = 3
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        creations: list[AclCreation] = ABSENT,
    ) -> None:
        self.creations = [] if creations is ABSENT else creations


class AclCreation(Struct):
    __slots__ = ("resource_type", "resource_name", "resource_pattern_type", "principal", "host", "operation", "permission_type",)

    def __init__(
        self,
        *,
        resource_type: int = 0,
        resource_name: str = '',
        resource_pattern_type: int = 3,
        principal: str = '',
        host: str = '',
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.resource_pattern_type = resource_pattern_type
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type
