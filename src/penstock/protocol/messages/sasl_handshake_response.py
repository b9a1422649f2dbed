"""SaslHandshakeResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message


class SaslHandshakeResponse(Message):
    """SaslHandshakeResponse, versions 0 to 1."""

    __slots__ = ("error_code", "mechanisms",)

    NAME = "SaslHandshakeResponse"
    KEY = 17
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = None

    def __init__(
        self,
        *,
        error_code: int = 0,
        mechanisms: list[str] = ABSENT,
    ) -> None:
        self.error_code = error_code
        self.mechanisms = [] if mechanisms is ABSENT else mechanisms
