"""ListTransactionsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message


class ListTransactionsRequest(Message):
    """ListTransactionsRequest, versions 0 to 2."""

    __slots__ = ("state_filters", "producer_id_filters", "duration_filter", "transactional_id_pattern",)

    NAME = "ListTransactionsRequest"
    KEY = 66
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        state_filters: list[str] = ABSENT,
        producer_id_filters: list[int] = ABSENT,
        duration_filter: int = -1,
        transactional_id_pattern: str | None = None,
    ) -> None:
        self.state_filters = [] if state_filters is ABSENT else state_filters
        self.producer_id_filters = [] if producer_id_filters is ABSENT else producer_id_filters
        self.duration_filter = duration_filter
        self.transactional_id_pattern = transactional_id_pattern
