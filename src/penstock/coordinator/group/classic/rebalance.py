"""How a rebalance of a classic group begins, how its first phase ends, and the timers of groups and members.

Timers, by the first word of their keys:

- `classic-session` (group, member): nothing was heard from the member for its session timeout; it is dropped. For a
  member that joins for the first time it is longer, since it cannot send heartbeats before the answer.
- `classic-join` (group): the time to join again is over. Dynamic members that have not are dropped; static ones stay
  until their sessions end. If the group was empty: the initial rebalance delay is over, or is extended.
- `classic-sync` (group): members that have not synced are dropped.

The functions here change the group at once. They return a Result, which has a record only when the group is empty.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from penstock.coordinator.group.base import NO_MEMBER
from penstock.coordinator.group.classic.group import ClassicGroup, State
from penstock.coordinator.group.classic.member import EMPTY_ASSIGNMENT, ClassicMember, join_error
from penstock.coordinator.group.classic.pending import SESSION
from penstock.coordinator.group.state import GroupState
from penstock.coordinator.runtime.result import CoordinatorRecord, Result
from penstock.errors import ErrorCode
from penstock.events import events
from penstock.protocol.messages.sync_group_response import SyncGroupResponse

logger = events("coordinator.group")

JOIN = "classic-join"
SYNC = "classic-sync"
WAS_CONSUMER_GROUP = "it was a consumer group until now"


def write(
    *records: CoordinatorRecord, appended: Any = None, replay: Callable[[], None] | Literal[False] = False
) -> Result[Any]:
    """Records of changes already made, apart from those that `replay` makes. They are not replayed here."""
    return Result(records=records, appended=appended, replay=replay)


NOTHING: Result[Any] = Result()


# Sessions


def renew_session(state: GroupState, group: ClassicGroup, member: ClassicMember, now_ms: int) -> None:
    """Restarts the session timeout of a member that has sent a request."""
    state.timers.set((SESSION, group.group_id, member.member_id), now_ms + member.session_timeout_ms)


def end_session(state: GroupState, group: ClassicGroup, member_id: str) -> None:
    """Forgets the session of a member that is not in the group any more."""
    state.timers.cancel((SESSION, group.group_id, member_id))


def drop_member(state: GroupState, group: ClassicGroup, member: ClassicMember, now_ms: int) -> None:
    """Removes a member. If its join waits for an answer, it is told to join again as a new member."""
    end_session(state, group, member.member_id)
    group.answer_join(member, join_error(ErrorCode.UNKNOWN_MEMBER_ID, NO_MEMBER), now_ms)
    member.answer_sync(SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID), now_ms)
    group.remove(member.member_id)


def session_expired(state: GroupState, key: tuple[str, str, str], now_ms: int) -> Result[Any]:
    """Nothing was heard from a member, or from the client that was given a member id, for too long."""
    _, group_id, member_id = key
    state.pending.forget(group_id, member_id)
    group = state.groups.find_of(ClassicGroup, group_id) or state.pending.forming(group_id)
    if group is None:
        return NOTHING
    if member_id in group.pending:
        state.pending.remove(group, member_id)
        return complete_if_all_joined(state, group, now_ms)
    member = group.members.get(member_id)
    if member is None or member.is_heard_of:
        return NOTHING
    logger.info("member timed out", group=group.group_id, member=member_id, timer="session")
    drop_member(state, group, member, now_ms)
    return members_left(state, group, f"the session of {member_id} is over", now_ms)


def members_left(state: GroupState, group: ClassicGroup, reason: str, now_ms: int) -> Result[Any]:
    """Continues after members were removed: the others rebalance, or need no longer wait for the removed ones."""
    if group.state in (State.STABLE, State.COMPLETING_REBALANCE):
        return prepare_rebalance(state, group, reason, now_ms)
    return complete_if_all_joined(state, group, now_ms)


def complete_if_all_joined(state: GroupState, group: ClassicGroup, now_ms: int) -> Result[Any]:
    """Ends the first phase of a rebalance if all members have joined."""
    if group.state is State.PREPARING_REBALANCE and group.all_joined:
        return complete_join(state, group, now_ms)
    return NOTHING


# The first phase


def rebalance_or_complete(state: GroupState, group: ClassicGroup, reason: str, now_ms: int) -> Result[Any]:
    """Begins a rebalance, or ends the first phase of the present one if all members have joined.

    The first rebalance of a group that was empty is not cut short: more members are expected.
    """
    if group.can_rebalance:
        return prepare_rebalance(state, group, reason, now_ms)
    return complete_rebalance(state, group, now_ms)


def complete_rebalance(state: GroupState, group: ClassicGroup, now_ms: int) -> Result[Any]:
    """Ends the first phase of a rebalance if all members have joined, except in the group's first rebalance."""
    if group.previous_state is State.EMPTY:
        return NOTHING
    return complete_if_all_joined(state, group, now_ms)


def prepare_rebalance(state: GroupState, group: ClassicGroup, reason: str, now_ms: int) -> Result[Any]:
    """Begins a rebalance: every member has to join again."""
    if group.state is State.COMPLETING_REBALANCE:
        reset_assignment(state, group, ErrorCode.REBALANCE_IN_PROGRESS, now_ms)
    group.pending_sync.clear()
    state.timers.cancel((SYNC, group.group_id))
    is_initial = group.state is State.EMPTY
    group.move(State.PREPARING_REBALANCE, state.wall.at(now_ms))
    logger.info("rebalance begins", group=group.group_id, generation=group.generation_id, reason=reason)
    if is_initial:
        delay_ms = state.settings.broker().group_initial_rebalance_delay_ms
        delay_initial(state, group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0), now_ms)
        return NOTHING
    if group.all_joined:
        return complete_join(state, group, now_ms)
    state.timers.set((JOIN, group.group_id), now_ms + group.rebalance_timeout_ms)
    return NOTHING


def delay_initial(state: GroupState, group: ClassicGroup, delay_ms: int, remaining_ms: int, now_ms: int) -> None:
    """Waits for more members of a group that was empty; `remaining_ms`: for how much longer it may be put off then."""
    group.initial_delay_ms = delay_ms
    group.initial_remaining_ms = remaining_ms
    state.timers.set((JOIN, group.group_id), now_ms + delay_ms)


def join_expired(state: GroupState, key: tuple[str, str], now_ms: int) -> Result[Any]:
    """The time to join is over."""
    group = state.groups.find_of(ClassicGroup, key[1])
    if group is None or group.state is not State.PREPARING_REBALANCE:
        return NOTHING
    remaining_ms = group.initial_remaining_ms
    if remaining_ms and group.new_member_added:
        group.new_member_added = False
        delay_ms = min(state.settings.broker().group_initial_rebalance_delay_ms, remaining_ms)
        delay_initial(state, group, delay_ms, max(remaining_ms - group.initial_delay_ms, 0), now_ms)
        return NOTHING
    return complete_join(state, group, now_ms)


def complete_join(state: GroupState, group: ClassicGroup, now_ms: int) -> Result[Any]:
    """Ends the first phase of a rebalance: members that have joined make the next generation, and are answered."""
    state.timers.cancel((JOIN, group.group_id))
    group.initial_remaining_ms = None
    group.new_member_added = False
    for member in list(group.members.values()):
        if not member.awaits_join and member.instance_id is None:
            logger.info("member timed out", group=group.group_id, member=member.member_id, timer="rebalance")
            drop_member(state, group, member, now_ms)
    if group.members and not group.elect_leader():
        # Only static members that are away. Their sessions end some time.
        state.timers.set((JOIN, group.group_id), now_ms + group.rebalance_timeout_ms)
        return NOTHING
    group.next_generation(state.wall.at(now_ms))
    if group.state is State.EMPTY:
        logger.info("group is empty", group=group.group_id, generation=group.generation_id)
        return write(group.record())
    count = len(group.members)
    logger.info("rebalance done", group=group.group_id, generation=group.generation_id, members=count)
    for member in group.members.values():
        group.answer_join(member, group.joined(member), now_ms)
        renew_session(state, group, member, now_ms)
        member.is_new = False
        group.pending_sync[member.member_id] = None
    state.timers.set((SYNC, group.group_id), now_ms + group.rebalance_timeout_ms)
    return NOTHING


# The second phase


def synced(state: GroupState, group: ClassicGroup, member_id: str) -> None:
    """Notes that a member has synced; when all have, the sync timer ends."""
    group.pending_sync.pop(member_id, None)
    if not group.pending_sync:
        state.timers.cancel((SYNC, group.group_id))


def sync_expired(state: GroupState, key: tuple[str, str], now_ms: int) -> Result[Any]:
    """Removes members that have joined but not synced in time; the others rebalance."""
    group = state.groups.find_of(ClassicGroup, key[1])
    if group is None or group.state not in (State.COMPLETING_REBALANCE, State.STABLE) or not group.pending_sync:
        return NOTHING
    missing = list(group.pending_sync)
    for member_id in missing:
        member = group.members.get(member_id)
        if member is not None:
            drop_member(state, group, member, now_ms)
    return prepare_rebalance(state, group, f"{', '.join(missing)} did not sync in time", now_ms)


def reset_assignment(state: GroupState, group: ClassicGroup, code: ErrorCode, now_ms: int) -> None:
    """Removes all assignments; answers waiting syncs with the error."""
    for member in group.members.values():
        member.assignment = EMPTY_ASSIGNMENT
    answer_syncs(state, group, code, now_ms)


def answer_syncs(state: GroupState, group: ClassicGroup, code: ErrorCode, now_ms: int) -> None:
    """Answers all syncs that wait, with the assignment or an error."""
    for member in group.members.values():
        if member.answer_sync(sync_response(group, member, code), now_ms):
            # While it waited, the end of its session had no effect.
            renew_session(state, group, member, now_ms)


def sync_response(group: ClassicGroup, member: ClassicMember, code: ErrorCode = ErrorCode.NONE) -> SyncGroupResponse:
    """The SyncGroup response with a member's assignment."""
    if code:
        return SyncGroupResponse(error_code=code, assignment=member.assignment)
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
    )


# Leadership


def loaded(state: GroupState, now_ms: int) -> None:
    """Gives members of groups that were read from the log a whole session."""
    max_size = state.settings.broker().group_max_size
    for group in state.groups.all():
        if not isinstance(group, ClassicGroup):
            continue
        for member in group.members.values():
            renew_session(state, group, member, now_ms)
        if len(group.members) > max_size:
            # Whoever joins again first may stay.
            prepare_rebalance(state, group, f"it has more than {max_size} members (group.max.size)", now_ms)
        elif group.was_consumer_group:
            prepare_rebalance(state, group, WAS_CONSUMER_GROUP, now_ms)


def unloaded(state: GroupState, now_ms: int) -> None:
    """Another broker coordinates the groups now: members learn it from the answers that they wait for."""
    for group in state.groups.all():
        if isinstance(group, ClassicGroup):
            group.move(State.DEAD, state.wall.at(now_ms))
            for member in group.members.values():
                group.answer_join(member, join_error(ErrorCode.NOT_COORDINATOR, member.member_id), now_ms)
                member.answer_sync(SyncGroupResponse(error_code=ErrorCode.NOT_COORDINATOR), now_ms)


EXPIRED: dict[str, Callable[..., Result[Any]]] = {SESSION: session_expired, JOIN: join_expired, SYNC: sync_expired}
