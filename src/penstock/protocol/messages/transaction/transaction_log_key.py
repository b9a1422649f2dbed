"""TransactionLogKey. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class TransactionLogKey(Message, key=0, versions=(0, 0)):
    """TransactionLogKey, versions 0 to 0."""

    transactional_id: str = ''
