"""ConsumerGroupCurrentMemberAssignmentKey. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class ConsumerGroupCurrentMemberAssignmentKey(Message, key=8, versions=(0, 0)):
    """ConsumerGroupCurrentMemberAssignmentKey, versions 0 to 0."""

    group_id: str = ''
    member_id: str = ''
