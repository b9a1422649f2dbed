"""AlterUserScramCredentialsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class AlterUserScramCredentialsRequest(Message, key=51, versions=(0, 0), flexible_from=0):
    """AlterUserScramCredentialsRequest, versions 0 to 0."""

    deletions: list[ScramCredentialDeletion] = ABSENT
    upsertions: list[ScramCredentialUpsertion] = ABSENT


class ScramCredentialDeletion(Struct):
    name: str = ''
    mechanism: int = 0


class ScramCredentialUpsertion(Struct):
    name: str = ''
    mechanism: int = 0
    iterations: int = 0
    salt: bytes = b""
    salted_password: bytes = b""
