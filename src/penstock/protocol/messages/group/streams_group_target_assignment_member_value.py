"""StreamsGroupTargetAssignmentMemberValue. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class StreamsGroupTargetAssignmentMemberValue(Message, key=21, versions=(0, 0), flexible_from=0):
    """StreamsGroupTargetAssignmentMemberValue, versions 0 to 0."""

    active_tasks: list[TaskIds] = ABSENT
    standby_tasks: list[TaskIds] = ABSENT
    warmup_tasks: list[TaskIds] = ABSENT


class TaskIds(Struct):
    subtopology_id: str = ''
    partitions: list[int] = ABSENT
