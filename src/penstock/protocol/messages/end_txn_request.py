"""EndTxnRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class EndTxnRequest(Message, key=26, versions=(0, 5), flexible_from=3):
    """EndTxnRequest, versions 0 to 5."""

    transactional_id: str = ''
    producer_id: int = 0
    producer_epoch: int = 0
    committed: bool = False
