"""DescribeAclsResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class DescribeAclsResponse(Message):
    """DescribeAclsResponse, versions 1 to 3."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message", "resources",)

    NAME = "DescribeAclsResponse"
    KEY = 29
    MIN_VERSION = 1
    MAX_VERSION = 3
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = '',
        resources: list[DescribeAclsResource] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.resources = [] if resources is ABSENT else resources


class DescribeAclsResource(Struct):
    __slots__ = ("resource_type", "resource_name", "pattern_type", "acls",)

    def __init__(
        self,
        *,
        resource_type: int = 0,
        resource_name: str = '',
        pattern_type: int = 3,
        acls: list[AclDescription] = ABSENT,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.pattern_type = pattern_type
        self.acls = [] if acls is ABSENT else acls


class AclDescription(Struct):
    __slots__ = ("principal", "host", "operation", "permission_type",)

    def __init__(
        self,
        *,
        principal: str = '',
        host: str = '',
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type
