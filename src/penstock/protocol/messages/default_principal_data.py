"""DefaultPrincipalData. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class DefaultPrincipalData(Message):
    """DefaultPrincipalData, versions 0 to 0."""

    __slots__ = ("type", "name", "token_authenticated",)

    NAME = "DefaultPrincipalData"
    KEY = -1
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        type: str = '',
        name: str = '',
        token_authenticated: bool = False,
    ) -> None:
        self.type = type
        self.name = name
        self.token_authenticated = token_authenticated
