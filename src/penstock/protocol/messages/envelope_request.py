"""EnvelopeRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class EnvelopeRequest(Message, key=58, versions=(0, 0), flexible_from=0):
    """EnvelopeRequest, versions 0 to 0."""

    request_data: bytes = b""
    request_principal: bytes | None = b""
    client_host_address: bytes = b""
