"""InitProducerIdResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class InitProducerIdResponse(Message, key=22, versions=(0, 6), flexible_from=2):
    """InitProducerIdResponse, versions 0 to 6."""

    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id: int = -1
    producer_epoch: int = 0
    ongoing_txn_producer_id: int = -1
    ongoing_txn_producer_epoch: int = -1
