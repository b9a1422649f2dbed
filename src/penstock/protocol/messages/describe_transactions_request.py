"""DescribeTransactionsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message


class DescribeTransactionsRequest(Message, key=65, versions=(0, 0), flexible_from=0):
    """DescribeTransactionsRequest, versions 0 to 0."""

    transactional_ids: list[str] = ABSENT
