"""RemoveUserScramCredentialRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class RemoveUserScramCredentialRecord(Message):
    """RemoveUserScramCredentialRecord, versions 0 to 0."""

    __slots__ = ("name", "mechanism",)

    NAME = "RemoveUserScramCredentialRecord"
    KEY = 22
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        name: str = '',
        mechanism: int = 0,
    ) -> None:
        self.name = name
        self.mechanism = mechanism
