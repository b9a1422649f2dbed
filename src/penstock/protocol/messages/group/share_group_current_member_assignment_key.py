"""ShareGroupCurrentMemberAssignmentKey. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class ShareGroupCurrentMemberAssignmentKey(Message, key=14, versions=(0, 0)):
    """ShareGroupCurrentMemberAssignmentKey, versions 0 to 0."""

    group_id: str = ''
    member_id: str = ''
