"""RemoveDelegationTokenRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class RemoveDelegationTokenRecord(Message):
    """RemoveDelegationTokenRecord, versions 0 to 0."""

    __slots__ = ("token_id",)

    NAME = "RemoveDelegationTokenRecord"
    KEY = 26
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        token_id: str = '',
    ) -> None:
        self.token_id = token_id
