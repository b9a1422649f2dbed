"""UserScramCredentialRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class UserScramCredentialRecord(Message):
    """UserScramCredentialRecord, versions 0 to 0."""

    __slots__ = ("name", "mechanism", "salt", "stored_key", "server_key", "iterations",)

    NAME = "UserScramCredentialRecord"
    KEY = 11
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        name: str = '',
        mechanism: int = 0,
        salt: bytes = b"",
        stored_key: bytes = b"",
        server_key: bytes = b"",
        iterations: int = 0,
    ) -> None:
        self.name = name
        self.mechanism = mechanism
        self.salt = salt
        self.stored_key = stored_key
        self.server_key = server_key
        self.iterations = iterations
