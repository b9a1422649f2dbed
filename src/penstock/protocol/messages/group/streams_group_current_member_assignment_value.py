"""StreamsGroupCurrentMemberAssignmentValue. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class StreamsGroupCurrentMemberAssignmentValue(Message):
    """StreamsGroupCurrentMemberAssignmentValue, versions 0 to 0."""

    __slots__ = ("member_epoch", "previous_member_epoch", "state", "active_tasks", "standby_tasks", "warmup_tasks", "active_tasks_pending_revocation", "standby_tasks_pending_revocation", "warmup_tasks_pending_revocation",)

    NAME = "StreamsGroupCurrentMemberAssignmentValue"
    KEY = 22
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        member_epoch: int = 0,
        previous_member_epoch: int = 0,
        state: int = 0,
        active_tasks: list[TaskIds] = ABSENT,
        standby_tasks: list[TaskIds] = ABSENT,
        warmup_tasks: list[TaskIds] = ABSENT,
        active_tasks_pending_revocation: list[TaskIds] = ABSENT,
        standby_tasks_pending_revocation: list[TaskIds] = ABSENT,
        warmup_tasks_pending_revocation: list[TaskIds] = ABSENT,
    ) -> None:
        self.member_epoch = member_epoch
        self.previous_member_epoch = previous_member_epoch
        self.state = state
        self.active_tasks = [] if active_tasks is ABSENT else active_tasks
        self.standby_tasks = [] if standby_tasks is ABSENT else standby_tasks
        self.warmup_tasks = [] if warmup_tasks is ABSENT else warmup_tasks
        self.active_tasks_pending_revocation = [] if active_tasks_pending_revocation is ABSENT else active_tasks_pending_revocation
        self.standby_tasks_pending_revocation = [] if standby_tasks_pending_revocation is ABSENT else standby_tasks_pending_revocation
        self.warmup_tasks_pending_revocation = [] if warmup_tasks_pending_revocation is ABSENT else warmup_tasks_pending_revocation


class TaskIds(Struct):
    __slots__ = ("subtopology_id", "partitions", "assignment_epochs",)

    def __init__(
        self,
        *,
        subtopology_id: str = '',
        partitions: list[int] = ABSENT,
        assignment_epochs: list[int] | None = ABSENT,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.partitions = [] if partitions is ABSENT else partitions
        self.assignment_epochs = [] if assignment_epochs is ABSENT else assignment_epochs
