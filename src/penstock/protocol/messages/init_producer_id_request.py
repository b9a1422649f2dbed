"""InitProducerIdRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class InitProducerIdRequest(Message, key=22, versions=(0, 6), flexible_from=2):
    """InitProducerIdRequest, versions 0 to 6."""

    transactional_id: str | None = ''
    transaction_timeout_ms: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    enable2_pc: bool = False
    keep_prepared_txn: bool = False
