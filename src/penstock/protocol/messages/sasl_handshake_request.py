"""SaslHandshakeRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class SaslHandshakeRequest(Message):
    """SaslHandshakeRequest, versions 0 to 1."""

    __slots__ = ("mechanism",)

    NAME = "SaslHandshakeRequest"
    KEY = 17
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = None

    def __init__(
        self,
        *,
        mechanism: str = '',
    ) -> None:
        self.mechanism = mechanism
