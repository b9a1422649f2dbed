"""StreamsGroupDescribeRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message


class StreamsGroupDescribeRequest(Message, key=89, versions=(0, 0), flexible_from=0):
    """StreamsGroupDescribeRequest, versions 0 to 0."""

    group_ids: list[str] = ABSENT
    include_authorized_operations: bool = False
