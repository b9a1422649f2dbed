"""StreamsGroupDescribeRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message


class StreamsGroupDescribeRequest(Message):
    """StreamsGroupDescribeRequest, versions 0 to 0."""

    __slots__ = ("group_ids", "include_authorized_operations",)

    NAME = "StreamsGroupDescribeRequest"
    KEY = 89
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        group_ids: list[str] = ABSENT,
        include_authorized_operations: bool = False,
    ) -> None:
        self.group_ids = [] if group_ids is ABSENT else group_ids
        self.include_authorized_operations = include_authorized_operations
