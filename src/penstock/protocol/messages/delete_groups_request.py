"""DeleteGroupsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message


class DeleteGroupsRequest(Message, key=42, versions=(0, 2), flexible_from=2):
    """DeleteGroupsRequest, versions 0 to 2."""

    groups_names: list[str] = ABSENT
