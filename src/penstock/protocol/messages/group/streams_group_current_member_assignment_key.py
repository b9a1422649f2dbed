"""StreamsGroupCurrentMemberAssignmentKey. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class StreamsGroupCurrentMemberAssignmentKey(Message, key=22, versions=(0, 0)):
    """StreamsGroupCurrentMemberAssignmentKey, versions 0 to 0."""

    group_id: str = ''
    member_id: str = ''
