"""ResponseHeader. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class ResponseHeader(Message):
    """ResponseHeader, versions 0 to 1."""

    __slots__ = ("correlation_id",)

    NAME = "ResponseHeader"
    KEY = -1
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 1

    def __init__(
        self,
        *,
        correlation_id: int = 0,
    ) -> None:
        self.correlation_id = correlation_id
