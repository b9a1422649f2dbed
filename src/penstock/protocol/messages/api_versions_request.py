"""ApiVersionsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class ApiVersionsRequest(Message, key=18, versions=(0, 4), flexible_from=3):
    """ApiVersionsRequest, versions 0 to 4."""

    client_software_name: str = ''
    client_software_version: str = ''
