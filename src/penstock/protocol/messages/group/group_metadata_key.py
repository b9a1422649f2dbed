"""GroupMetadataKey. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class GroupMetadataKey(Message):
    """GroupMetadataKey, versions 0 to 0."""

    __slots__ = ("group",)

    NAME = "GroupMetadataKey"
    KEY = 2
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = None

    def __init__(
        self,
        *,
        group: str = '',
    ) -> None:
        self.group = group
