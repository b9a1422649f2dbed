"""EndTxnResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class EndTxnResponse(Message, key=26, versions=(0, 5), flexible_from=3):
    """EndTxnResponse, versions 0 to 5."""

    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
