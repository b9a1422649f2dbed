"""The timers of members, by the first word of their keys (kind, group id, member id).

- `consumer-session`: nothing was heard from the member for its session timeout.
- `consumer-rebalance`: it has not given up revoked partitions within its rebalance timeout.
- `consumer-join`, `consumer-sync`: a member with the classic protocol has not joined again, or not synced.

In each case `leave.py` fences the member. Timers are soft state: a new coordinator gives every member a whole session.
"""

from __future__ import annotations

from typing import Final

from penstock.coordinator.group.consumer.member import ConsumerMember
from penstock.coordinator.group.state import GroupState

SESSION: Final = "consumer-session"
REBALANCE: Final = "consumer-rebalance"
JOIN: Final = "consumer-join"
SYNC: Final = "consumer-sync"
KINDS: Final = (SESSION, REBALANCE, JOIN, SYNC)


def set_session(state: GroupState, group_id: str, member: ConsumerMember, now_ms: int) -> None:
    """Restarts the session timeout of a member that has sent a request."""
    classic = member.classic
    timeout_ms = (
        state.settings_of(group_id).consumer_session_timeout_ms if classic is None else classic.session_timeout_ms
    )
    state.timers.set((SESSION, group_id, member.member_id), now_ms + timeout_ms)


def set_rebalance(state: GroupState, group_id: str, member: ConsumerMember, now_ms: int) -> None:
    """Gives a member its rebalance timeout to give up what it was told to."""
    state.timers.set((REBALANCE, group_id, member.member_id), now_ms + member.rebalance_timeout_ms)


def cancel_rebalance(state: GroupState, group_id: str, member_id: str) -> None:
    """Ends the wait for a member that has given up what it was told to."""
    state.timers.cancel((REBALANCE, group_id, member_id))


def set_join(state: GroupState, group_id: str, member: ConsumerMember, now_ms: int) -> None:
    """Gives a classic member its rebalance timeout to join again; telling it twice gives it no more time."""
    key = (JOIN, group_id, member.member_id)
    if key not in state.timers:
        state.timers.set(key, now_ms + member.rebalance_timeout_ms)


def set_sync(state: GroupState, group_id: str, member: ConsumerMember, now_ms: int) -> None:
    """Gives a classic member that has joined its rebalance timeout to sync."""
    state.timers.cancel((JOIN, group_id, member.member_id))
    state.timers.set((SYNC, group_id, member.member_id), now_ms + member.rebalance_timeout_ms)


def cancel_sync(state: GroupState, group_id: str, member_id: str) -> None:
    """Ends the wait for a classic member that has synced."""
    state.timers.cancel((SYNC, group_id, member_id))


def cancel_all(state: GroupState, group_id: str, member_id: str) -> None:
    """Forgets all timers of a member that has gone."""
    for kind in KINDS:
        state.timers.cancel((kind, group_id, member_id))
