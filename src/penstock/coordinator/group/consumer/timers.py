"""The timers of members, by the first word of their keys (kind, group id, member id).

- `consumer-session`: nothing was heard of the member for the session timeout. It is dead.
- `consumer-rebalance`: it has not given up what it should not have within its rebalance timeout.
- `consumer-join`, `consumer-sync`: a member with the classic protocol has not joined again, or not synced.

What happens then is in `leave.py`. They are soft state: a new coordinator gives every member a whole session anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.coordinator.group.consumer.member import ConsumerMember
from penstock.coordinator.group.consumer.settings import timing

if TYPE_CHECKING:
    from penstock.coordinator.group.machine import GroupMachine

SESSION: Final = "consumer-session"
REBALANCE: Final = "consumer-rebalance"
JOIN: Final = "consumer-join"
SYNC: Final = "consumer-sync"
KINDS: Final = (SESSION, REBALANCE, JOIN, SYNC)


def set_session(machine: GroupMachine, group_id: str, member: ConsumerMember, now_ms: int) -> None:
    """The member was heard of."""
    classic = member.classic
    timeout_ms = timing(machine, group_id).session_timeout_ms if classic is None else classic.session_timeout_ms
    machine.timers.set((SESSION, group_id, member.member_id), now_ms + timeout_ms)


def set_rebalance(machine: GroupMachine, group_id: str, member: ConsumerMember, now_ms: int) -> None:
    """The member was told to give something up."""
    machine.timers.set((REBALANCE, group_id, member.member_id), now_ms + member.rebalance_timeout_ms)


def cancel_rebalance(machine: GroupMachine, group_id: str, member_id: str) -> None:
    """It has."""
    machine.timers.cancel((REBALANCE, group_id, member_id))


def set_join(machine: GroupMachine, group_id: str, member: ConsumerMember, now_ms: int) -> None:
    """A classic member was told to join again; telling it twice gives it no more time."""
    key = (JOIN, group_id, member.member_id)
    if key not in machine.timers:
        machine.timers.set(key, now_ms + member.rebalance_timeout_ms)


def set_sync(machine: GroupMachine, group_id: str, member: ConsumerMember, now_ms: int) -> None:
    """A classic member has joined and will sync."""
    machine.timers.cancel((JOIN, group_id, member.member_id))
    machine.timers.set((SYNC, group_id, member.member_id), now_ms + member.rebalance_timeout_ms)


def cancel_sync(machine: GroupMachine, group_id: str, member_id: str) -> None:
    """It has."""
    machine.timers.cancel((SYNC, group_id, member_id))


def cancel_all(machine: GroupMachine, group_id: str, member_id: str) -> None:
    """The member has gone."""
    for kind in KINDS:
        machine.timers.cancel((kind, group_id, member_id))
