"""ConsumerGroupDescribeRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message


class ConsumerGroupDescribeRequest(Message, key=69, versions=(0, 1), flexible_from=0):
    """ConsumerGroupDescribeRequest, versions 0 to 1."""

    group_ids: list[str] = ABSENT
    include_authorized_operations: bool = False
