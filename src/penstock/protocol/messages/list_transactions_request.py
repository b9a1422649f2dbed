"""ListTransactionsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message


class ListTransactionsRequest(Message, key=66, versions=(0, 2), flexible_from=0):
    """ListTransactionsRequest, versions 0 to 2."""

    state_filters: list[str] = ABSENT
    producer_id_filters: list[int] = ABSENT
    duration_filter: int = -1
    transactional_id_pattern: str | None = None
