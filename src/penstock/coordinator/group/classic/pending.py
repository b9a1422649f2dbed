"""Member ids that were given out and have not joined yet (KIP-394), and groups that have nothing else.

A client without a member id is given one and joins again with it. Until then nothing is stored: a new group is created
with its first member. So a client that only asks for ids leaves nothing behind but what is here, which is bounded in
time, by the session timeout, and in number: when there are too many, the oldest id is taken back.
"""

from __future__ import annotations

from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.limits import PENDING_MEMBERS_MAX
from penstock.coordinator.runtime.timers import ShardTimers

SESSION = "classic-session"
"""First word of the keys of members' timers: (SESSION, group id, member id)."""


class PendingMembers:
    """The pending members of one coordinator partition."""

    __slots__ = ("_forming", "_members", "_timers")

    def __init__(self, timers: ShardTimers) -> None:
        self._timers = timers
        self._forming: dict[str, ClassicGroup] = {}
        self._members: dict[tuple[str, str], None] = {}

    def __len__(self) -> int:
        return len(self._members)

    def forming(self, group_id: str) -> ClassicGroup | None:
        """The group without members, of which only member ids have been given out; None if there is none."""
        return self._forming.get(group_id)

    def add(self, group: ClassicGroup, member_id: str, *, is_stored: bool, expires_ms: int, now_ms: int) -> None:
        """Keeps a member id that was given out, and the group, unless that is stored already."""
        group.pending[member_id] = None
        if not is_stored:
            self._forming[group.group_id] = group
        self._members[group.group_id, member_id] = None
        self._timers.set((SESSION, group.group_id, member_id), expires_ms)
        if len(self._members) > PENDING_MEMBERS_MAX:
            oldest = next(iter(self._members))
            del self._members[oldest]
            self._timers.set((SESSION, *oldest), now_ms)  # its time is over

    def remove(self, group: ClassicGroup, member_id: str) -> None:
        """The id has joined, or will not any more."""
        group.pending.pop(member_id, None)
        self.forget(group.group_id, member_id)
        if not group.pending:
            self._forming.pop(group.group_id, None)

    def forget(self, group_id: str, member_id: str) -> None:
        """The time of the id is over, whatever has become of its group."""
        self._members.pop((group_id, member_id), None)

    def formed(self, group_id: str) -> None:
        """Forgets a group that is now stored, or that could not be; its other pending ids become invalid."""
        self._forming.pop(group_id, None)
