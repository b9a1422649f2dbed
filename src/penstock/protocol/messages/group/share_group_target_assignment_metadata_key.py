"""ShareGroupTargetAssignmentMetadataKey. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class ShareGroupTargetAssignmentMetadataKey(Message):
    """ShareGroupTargetAssignmentMetadataKey, versions 0 to 0."""

    __slots__ = ("group_id",)

    NAME = "ShareGroupTargetAssignmentMetadataKey"
    KEY = 12
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = None

    def __init__(
        self,
        *,
        group_id: str = '',
    ) -> None:
        self.group_id = group_id
