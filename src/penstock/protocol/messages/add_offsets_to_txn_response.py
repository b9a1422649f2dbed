"""AddOffsetsToTxnResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class AddOffsetsToTxnResponse(Message, key=25, versions=(0, 4), flexible_from=3):
    """AddOffsetsToTxnResponse, versions 0 to 4."""

    throttle_time_ms: int = 0
    error_code: int = 0
