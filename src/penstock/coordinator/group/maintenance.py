"""Groups in general: listing, deletion, and expiry.

Every `offsets.retention.check.interval.ms` each partition of the coordinator checks its groups. An offset expires

- of a group with members, if nobody subscribes to its topic, `offsets.retention.minutes` after its commit;
- of an empty group, that long after the group became empty;
- of a group that only commits, that long after its commit;
- if the client has set a time (OffsetCommit up to version 4), then.

An empty group without offsets is removed. Offsets of a deleted topic are removed at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any
from uuid import UUID

from penstock.config.values import MINUTE_MS
from penstock.coordinator.group import records
from penstock.coordinator.group.base import Group
from penstock.coordinator.group.offsets.committed import CommittedOffset
from penstock.coordinator.group.offsets.delete import all_tombstones
from penstock.coordinator.group.state import GroupState
from penstock.coordinator.limits import EXPIRY_OFFSETS_PER_STEP
from penstock.coordinator.runtime.result import CoordinatorRecord, Result
from penstock.errors import ErrorCode, RequestError
from penstock.protocol.message import ZERO_UUID
from penstock.protocol.messages.delete_groups_response import DeletableGroupResult
from penstock.protocol.messages.list_groups_response import ListedGroup

EXPIRY = "expiry"
NO_TIMESTAMP = -1


# ListGroups (key 16), versions 0-5


def list_some(
    groups: Iterable[Group], committed_offset: int, states_filter: Sequence[str], types_filter: Sequence[str]
) -> list[ListedGroup]:
    """Lists the groups with one of the given states and types, ignoring case; an empty filter matches every group."""
    states = {state.lower() for state in states_filter}
    types = {kind.lower() for kind in types_filter}
    return [
        group.listed(committed_offset)
        for group in groups
        if (not states or group.state_name(committed_offset).lower() in states) and (not types or group.TYPE in types)
    ]


# DeleteGroups (key 42), versions 0-2


def delete_groups(state: GroupState, group_ids: Sequence[str], now_ms: int) -> Result[list[DeletableGroupResult]]:
    """Deletes empty groups, with their offsets. Others: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.

    A group may have more offsets than fit into a batch. Its own tombstone is last: until then it can be repeated.
    """
    answers = []
    written: list[CoordinatorRecord] = []
    for group_id in dict.fromkeys(group_ids):
        code = ErrorCode.NONE
        try:
            group = state.groups.get(group_id)
            group.check_delete()
            written += all_tombstones(state, group_id)
            written += group.tombstones()
        except RequestError as error:
            code = error.code
        answers.append(DeletableGroupResult(group_id=group_id, error_code=code))
    return Result(answers, written, atomic=False)


# Expiry


def loaded(state: GroupState, now_ms: int) -> None:
    """Plans the next check for expired offsets."""
    state.timers.set((EXPIRY,), now_ms + state.settings.broker().offsets_retention_check_interval_ms)


def expire(state: GroupState, key: tuple[str], now_ms: int) -> Result[Any]:
    """Removes what has expired, some groups at a time; the others follow soon."""
    if not state.unexpired:
        state.unexpired = [group.group_id for group in state.groups.all()]
    retention_ms = state.settings.broker().offsets_retention_minutes * MINUTE_MS
    written: list[CoordinatorRecord] = []
    seen = 0
    while state.unexpired and seen < EXPIRY_OFFSETS_PER_STEP:
        group = state.groups.find(state.unexpired.pop())
        if group is not None:
            expired, kept = expired_offsets(state, group, retention_ms, state.wall.at(now_ms))
            seen += 1 + len(expired) + kept
            written += expired
            if not kept and group.is_empty and not state.offsets.pending.has_group(group.group_id):
                written += group.tombstones()
    if state.unexpired:
        state.timers.set((EXPIRY,), now_ms + 1)
    else:
        loaded(state, now_ms)
    return Result(records=written, atomic=False)


def expired_offsets(
    state: GroupState, group: Group, retention_ms: int, wall_ms: int
) -> tuple[list[CoordinatorRecord], int]:
    """The tombstones of the group's expired offsets, and how many others there are."""
    group_id = group.group_id
    written = []
    kept = 0
    for topic, partition, committed in state.offsets.committed.each(group_id):
        if (
            not group.is_subscribed(topic)
            and is_expired(group, committed, retention_ms, wall_ms)
            and not state.offsets.pending.has(group_id, topic, partition)
        ):
            written.append(records.offset_commit_tombstone(group_id, topic, partition))
        else:
            kept += 1
    return written, kept


def is_expired(group: Group, committed: CommittedOffset, retention_ms: int, wall_ms: int) -> bool:
    """See the module's head."""
    since_ms = group.expires_from(committed.commit_timestamp_ms)
    if since_ms is None:
        return False
    if committed.expire_timestamp_ms != NO_TIMESTAMP:
        return wall_ms >= committed.expire_timestamp_ms
    return wall_ms - since_ms >= retention_ms


def delete_topics(state: GroupState, topics: Iterable[tuple[str, UUID]], now_ms: int) -> Result[bool]:
    """Removes offsets of deleted topics, (name, id), some at a time. Those of a later topic of the same name stay.

    Returns whether there are more.
    """
    places: dict[tuple[str, str, int], None] = {}
    for name, topic_id in topics:
        for group_id, partition, committed in state.offsets.of_topic(name):
            if committed.topic_id in (topic_id, ZERO_UUID):
                places[group_id, name, partition] = None
                if len(places) == EXPIRY_OFFSETS_PER_STEP:
                    return Result(True, tombstones(places), atomic=False)
    return Result(False, tombstones(places), atomic=False)


def tombstones(places: Iterable[tuple[str, str, int]]) -> list[CoordinatorRecord]:
    """The tombstones of offsets: group, topic, partition."""
    return [records.offset_commit_tombstone(*place) for place in places]


EXPIRED: dict[str, Callable[..., Result[Any]]] = {EXPIRY: expire}
