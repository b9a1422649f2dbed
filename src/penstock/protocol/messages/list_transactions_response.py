"""ListTransactionsResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class ListTransactionsResponse(Message, key=66, versions=(0, 2), flexible_from=0):
    """ListTransactionsResponse, versions 0 to 2."""

    throttle_time_ms: int = 0
    error_code: int = 0
    unknown_state_filters: list[str] = ABSENT
    transaction_states: list[TransactionState] = ABSENT


class TransactionState(Struct):
    transactional_id: str = ''
    producer_id: int = 0
    transaction_state: str = ''
