"""AlterUserScramCredentialsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class AlterUserScramCredentialsRequest(Message):
    """AlterUserScramCredentialsRequest, versions 0 to 0."""

    __slots__ = ("deletions", "upsertions",)

    NAME = "AlterUserScramCredentialsRequest"
    KEY = 51
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        deletions: list[ScramCredentialDeletion] = ABSENT,
        upsertions: list[ScramCredentialUpsertion] = ABSENT,
    ) -> None:
        self.deletions = [] if deletions is ABSENT else deletions
        self.upsertions = [] if upsertions is ABSENT else upsertions


class ScramCredentialDeletion(Struct):
    __slots__ = ("name", "mechanism",)

    def __init__(
        self,
        *,
        name: str = '',
        mechanism: int = 0,
    ) -> None:
        self.name = name
        self.mechanism = mechanism


class ScramCredentialUpsertion(Struct):
    __slots__ = ("name", "mechanism", "iterations", "salt", "salted_password",)

    def __init__(
        self,
        *,
        name: str = '',
        mechanism: int = 0,
        iterations: int = 0,
        salt: bytes = b"",
        salted_password: bytes = b"",
    ) -> None:
        self.name = name
        self.mechanism = mechanism
        self.iterations = iterations
        self.salt = salt
        self.salted_password = salted_password
