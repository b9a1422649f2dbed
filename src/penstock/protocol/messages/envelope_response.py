"""EnvelopeResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class EnvelopeResponse(Message, key=58, versions=(0, 0), flexible_from=0):
    """EnvelopeResponse, versions 0 to 0."""

    response_data: bytes | None = None
    error_code: int = 0
