"""DescribeTransactionsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message


class DescribeTransactionsRequest(Message):
    """DescribeTransactionsRequest, versions 0 to 0."""

    __slots__ = ("transactional_ids",)

    NAME = "DescribeTransactionsRequest"
    KEY = 65
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        transactional_ids: list[str] = ABSENT,
    ) -> None:
        self.transactional_ids = [] if transactional_ids is ABSENT else transactional_ids
