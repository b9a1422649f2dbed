"""RemoveAccessControlEntryRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import Message, ZERO_UUID


class RemoveAccessControlEntryRecord(Message):
    """RemoveAccessControlEntryRecord, versions 0 to 0."""

    __slots__ = ("id",)

    NAME = "RemoveAccessControlEntryRecord"
    KEY = 19
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        id: UUID = ZERO_UUID,
    ) -> None:
        self.id = id
