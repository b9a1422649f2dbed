"""ShareGroupDescribeRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message


class ShareGroupDescribeRequest(Message, key=77, versions=(1, 1), flexible_from=0):
    """ShareGroupDescribeRequest, versions 1 to 1."""

    group_ids: list[str] = ABSENT
    include_authorized_operations: bool = False
