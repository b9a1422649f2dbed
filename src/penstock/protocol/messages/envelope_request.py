"""EnvelopeRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class EnvelopeRequest(Message):
    """EnvelopeRequest, versions 0 to 0."""

    __slots__ = ("request_data", "request_principal", "client_host_address",)

    NAME = "EnvelopeRequest"
    KEY = 58
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        request_data: bytes = b"",
        request_principal: bytes | None = b"",
        client_host_address: bytes = b"",
    ) -> None:
        self.request_data = request_data
        self.request_principal = request_principal
        self.client_host_address = client_host_address
