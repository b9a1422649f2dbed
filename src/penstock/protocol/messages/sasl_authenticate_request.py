"""SaslAuthenticateRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class SaslAuthenticateRequest(Message):
    """SaslAuthenticateRequest, versions 0 to 2."""

    __slots__ = ("auth_bytes",)

    NAME = "SaslAuthenticateRequest"
    KEY = 36
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        auth_bytes: bytes = b"",
    ) -> None:
        self.auth_bytes = auth_bytes
