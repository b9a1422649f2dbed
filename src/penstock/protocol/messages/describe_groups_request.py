"""DescribeGroupsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message


class DescribeGroupsRequest(Message):
    """DescribeGroupsRequest, versions 0 to 6."""

    __slots__ = ("groups", "include_authorized_operations",)

    NAME = "DescribeGroupsRequest"
    KEY = 15
    MIN_VERSION = 0
    MAX_VERSION = 6
    FLEXIBLE_FROM = 5

    def __init__(
        self,
        *,
        groups: list[str] = ABSENT,
        include_authorized_operations: bool = False,
    ) -> None:
        self.groups = [] if groups is ABSENT else groups
        self.include_authorized_operations = include_authorized_operations
