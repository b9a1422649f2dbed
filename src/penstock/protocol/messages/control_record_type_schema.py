"""ControlRecordTypeSchema. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class ControlRecordTypeSchema(Message):
    """ControlRecordTypeSchema, versions 0 to 0."""

    __slots__ = ("type",)

    NAME = "ControlRecordTypeSchema"
    KEY = -1
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = None

    def __init__(
        self,
        *,
        type: int = 0,
    ) -> None:
        self.type = type
