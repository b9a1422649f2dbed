"""ListGroupsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message


class ListGroupsRequest(Message, key=16, versions=(0, 5), flexible_from=3):
    """ListGroupsRequest, versions 0 to 5."""

    states_filter: list[str] = ABSENT
    types_filter: list[str] = ABSENT
