"""StreamsGroupTargetAssignmentMemberKey. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class StreamsGroupTargetAssignmentMemberKey(Message, key=21, versions=(0, 0)):
    """StreamsGroupTargetAssignmentMemberKey, versions 0 to 0."""

    group_id: str = ''
    member_id: str = ''
