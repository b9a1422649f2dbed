"""When the regular expressions of a group are evaluated, and what is done with the result.

A heartbeat starts an evaluation (`update`); a timer, `consumer-regex`, continues it step by step. At the end the result
is written, and the group epoch rises if it has changed what the group subscribes to. Topics that the member whose
heartbeat started it may not describe are not matched.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

from penstock.coordinator.group import records_consumer as records
from penstock.coordinator.group.consumer.group import ConsumerGroup, count_matches
from penstock.coordinator.group.consumer.regex import RegexScan, ResolvedRegex, check_regex
from penstock.coordinator.group.consumer.target import Change, changed_counts
from penstock.coordinator.group.state import GroupState
from penstock.coordinator.limits import REGEX_REFRESH_INTERVAL_MIN_MS, REGEX_STEP_DELAY_MS
from penstock.coordinator.runtime.result import CoordinatorRecord, Result

REGEX: Final = "consumer-regex"


class RegexUpdate(Enum):
    """Whether the member has another regular expression now, and whether its matches are known."""

    NONE = "none"
    UPDATED = "updated"
    RESOLVED = "resolved"

    @property
    def is_updated(self) -> bool:
        return self is not RegexUpdate.NONE


def update(change: Change) -> RegexUpdate:
    """Takes the regular expression of a member, and starts an evaluation when one is due.

    Raises RequestError INVALID_REGULAR_EXPRESSION for one that is new to the group.
    """
    group, old, new = change.group, change.old.subscribed_topic_regex, change.new.subscribed_topic_regex
    result, is_new = RegexUpdate.NONE, False
    if old != new:
        result = RegexUpdate.UPDATED
        if old and group.regex_members.get(old) == 1:
            change.records.append(records.regular_expression_tombstone(group.group_id, old))
        if not new:
            result = RegexUpdate.RESOLVED
        elif new not in group.regex_members:
            check_regex(new)
            is_new = True
        elif new in group.regexes:
            result = RegexUpdate.RESOLVED
    if is_new or len(group.regex_members):
        start_if_due(change, required=is_new)
    return result


def start_if_due(change: Change, *, required: bool) -> None:
    """Starts an evaluation, unless one is under way or the last one was just now."""
    state, group, now_ms = change.state, change.group, change.now_ms
    if group.group_id in state.topics.scans:
        return
    known = next((resolved for _, resolved in group.regexes.items()), None)
    wall = state.wall
    if known is not None and wall.within(known.timestamp_ms, REGEX_REFRESH_INTERVAL_MIN_MS + 1, now_ms):
        return
    used = changed_counts(
        dict(group.regex_members.items()), change.old.subscribed_topic_regex, change.new.subscribed_topic_regex
    )
    due = (
        required
        or len(used) != len(group.regexes)
        or known is None
        or known.version < state.topics.created_offset
        or not wall.within(
            known.timestamp_ms, state.settings.broker().group_consumer_regex_refresh_interval_ms + 1, now_ms
        )
    )
    if due and used:
        image = state.image
        scan = RegexScan(group.group_id, used, image.topics_by_name, image.offset, wall.at(now_ms), sees=change.sees)
        state.topics.scans[group.group_id] = scan
        state.timers.set((REGEX, group.group_id), now_ms)


def step(state: GroupState, key: tuple[str, str], now_ms: int) -> Result[Any]:
    """Goes on with an evaluation."""
    scan = state.topics.scans.get(key[1])
    if scan is None:
        return Result()
    if not scan.step():
        state.timers.set(key, now_ms + REGEX_STEP_DELAY_MS)
        return Result(is_step=True)
    del state.topics.scans[key[1]]
    group = state.groups.find_of(ConsumerGroup, key[1])
    if group is None:
        return Result()
    return Result(records=finished(state, group, scan.resolved()))


def finished(state: GroupState, group: ConsumerGroup, resolved: dict[str, ResolvedRegex]) -> list[CoordinatorRecord]:
    """The records of an evaluation's outcome. Regular expressions no longer in use are skipped."""
    written: list[CoordinatorRecord] = []
    subscribed = dict(group.topics.items())
    bump = False
    for regex, outcome in resolved.items():
        if regex not in group.regex_members:
            continue
        before = group.regex_topics(regex)
        if before != outcome.topics:
            bump = True
            count_matches(subscribed, before, -1)
            count_matches(subscribed, outcome.topics, +1)
        written.append(records.regular_expression(group.group_id, regex, outcome))
    epoch = group.epoch()
    metadata_hash = state.topics.hash(subscribed, state.image)
    if bump or metadata_hash != epoch.metadata_hash:
        written.append(records.group_epoch(group.group_id, epoch.group + 1, metadata_hash))
        group.refreshed_epoch = epoch.group + 1
    return written


EXPIRED = {REGEX: step}
