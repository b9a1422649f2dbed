"""DescribeGroupsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message


class DescribeGroupsRequest(Message, key=15, versions=(0, 6), flexible_from=5):
    """DescribeGroupsRequest, versions 0 to 6."""

    groups: list[str] = ABSENT
    include_authorized_operations: bool = False
