"""AddOffsetsToTxnRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class AddOffsetsToTxnRequest(Message, key=25, versions=(0, 4), flexible_from=3):
    """AddOffsetsToTxnRequest, versions 0 to 4."""

    transactional_id: str = ''
    producer_id: int = 0
    producer_epoch: int = 0
    group_id: str = ''
