"""ApiVersionsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class ApiVersionsRequest(Message):
    """ApiVersionsRequest, versions 0 to 4."""

    __slots__ = ("client_software_name", "client_software_version",)

    NAME = "ApiVersionsRequest"
    KEY = 18
    MIN_VERSION = 0
    MAX_VERSION = 4
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        client_software_name: str = '',
        client_software_version: str = '',
    ) -> None:
        self.client_software_name = client_software_name
        self.client_software_version = client_software_version
