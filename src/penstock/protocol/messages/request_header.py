"""RequestHeader. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class RequestHeader(Message):
    """RequestHeader, versions 1 to 2."""

    __slots__ = ("request_api_key", "request_api_version", "correlation_id", "client_id",)

    NAME = "RequestHeader"
    KEY = -1
    MIN_VERSION = 1
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        request_api_key: int = 0,
        request_api_version: int = 0,
        correlation_id: int = 0,
        client_id: str | None = '',
    ) -> None:
        self.request_api_key = request_api_key
        self.request_api_version = request_api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
