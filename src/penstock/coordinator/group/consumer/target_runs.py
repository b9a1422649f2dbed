"""When the target assignment of a large group is computed in steps, and what is done with it. See `target_run`.

A heartbeat that finds an assignment due starts it (`start`); a timer, `consumer-target`, continues it step by step.
Heartbeats meanwhile are answered by the last assignment, and come again soon. If a part cannot be written, the
assignment is computed again after a while.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from penstock.coordinator.group import records_consumer as records
from penstock.coordinator.group.assignors import preferred_assignor
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.run import TargetRun
from penstock.coordinator.group.consumer.target_run import begin, is_outdated
from penstock.coordinator.group.state import GroupState
from penstock.coordinator.limits import (
    COORDINATOR_TIMER_RETRY_MS,
    GROUP_ASSIGNMENT_STEP_DELAY_MS,
    GROUP_PARTITIONS_PER_MEMBER,
)
from penstock.coordinator.runtime.result import KEPT, CoordinatorRecord, Result
from penstock.errors import ErrorCode
from penstock.events import events

TARGET: Final = "consumer-target"

logger = events("coordinator.group")


def is_large(state: GroupState, member_count: int, topics: Iterable[str]) -> bool:
    """Whether a group with this many members and these topics is too large to be assigned in one step."""
    found = map(state.image.topics_by_name.get, topics)
    partition_count = sum(len(topic.partitions) for topic in found if topic is not None)
    size = member_count + partition_count // GROUP_PARTITIONS_PER_MEMBER
    return size > state.settings.broker().penstock_group_consumer_assignment_step


def start(state: GroupState, group: ConsumerGroup, now_ms: int) -> None:
    """Starts an assignment. By its first step, the records now being written are in the group's state."""
    if not is_under_way(state, group):
        state.timers.set((TARGET, group.group_id), now_ms)


def is_under_way(state: GroupState, group: ConsumerGroup) -> bool:
    """Whether an assignment is being computed, or will be soon."""
    return (TARGET, group.group_id) in state.timers


def step(state: GroupState, key: tuple[str, str], now_ms: int) -> Result[Any]:
    """Begins, continues or ends an assignment."""
    group = state.groups.find_of(ConsumerGroup, key[1])
    if group is None:
        return Result()
    run, group.run = group.run, None  # and none if this fails
    if run is None or is_outdated(run, group):
        epoch = group.epoch()
        if group.is_empty or epoch.group <= epoch.assignment:
            return Result()
        assignor = preferred_assignor(state.settings.broker().group_consumer_assignors, group.assignors.copy())
        run = begin(group, state.image, assignor, state.settings.broker().penstock_group_consumer_assignment_step)
    part = next(run.steps)
    if part is None:
        how = {"assignor": run.assignor, "members": run.member_count}
        logger.info("partitions assigned", group=group.group_id, epoch=run.group_epoch, **how)
        return write(state, group, None, [records.assignment_epoch(key[1], run.group_epoch, state.wall.at(now_ms))])
    group.run = run
    state.timers.set(key, now_ms + GROUP_ASSIGNMENT_STEP_DELAY_MS)
    return write(state, group, run, part) if part else Result(is_step=True)


def write(
    state: GroupState, group: ConsumerGroup, run: TargetRun | None, written: Iterable[CoordinatorRecord]
) -> Result[Any]:
    """A part of an assignment that is under way, or the end of one (None)."""
    withheld = group.withheld

    def appended(code: ErrorCode, at_ms: int) -> None:
        if code not in KEPT:
            if group.run is run:
                group.run = None
            state.timers.set((TARGET, group.group_id), at_ms + COORDINATOR_TIMER_RETRY_MS)
        elif run is None and not code and group.withheld is withheld:
            group.withheld = None

    return Result(records=list(written), appended=appended, atomic=False, is_step=True)


EXPIRED = {TARGET: step}
