"""ListTransactionsResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class ListTransactionsResponse(Message):
    """ListTransactionsResponse, versions 0 to 2."""

    __slots__ = ("throttle_time_ms", "error_code", "unknown_state_filters", "transaction_states",)

    NAME = "ListTransactionsResponse"
    KEY = 66
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        unknown_state_filters: list[str] = ABSENT,
        transaction_states: list[TransactionState] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.unknown_state_filters = [] if unknown_state_filters is ABSENT else unknown_state_filters
        self.transaction_states = [] if transaction_states is ABSENT else transaction_states


class TransactionState(Struct):
    __slots__ = ("transactional_id", "producer_id", "transaction_state",)

    def __init__(
        self,
        *,
        transactional_id: str = '',
        producer_id: int = 0,
        transaction_state: str = '',
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.transaction_state = transaction_state
