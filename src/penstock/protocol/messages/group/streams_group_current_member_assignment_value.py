"""StreamsGroupCurrentMemberAssignmentValue. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class StreamsGroupCurrentMemberAssignmentValue(Message, key=22, versions=(0, 0), flexible_from=0):
    """StreamsGroupCurrentMemberAssignmentValue, versions 0 to 0."""

    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: int = 0
    active_tasks: list[TaskIds] = ABSENT
    standby_tasks: list[TaskIds] = ABSENT
    warmup_tasks: list[TaskIds] = ABSENT
    active_tasks_pending_revocation: list[TaskIds] = ABSENT
    standby_tasks_pending_revocation: list[TaskIds] = ABSENT
    warmup_tasks_pending_revocation: list[TaskIds] = ABSENT


class TaskIds(Struct):
    subtopology_id: str = ''
    partitions: list[int] = ABSENT
    assignment_epochs: list[int] | None = ABSENT
