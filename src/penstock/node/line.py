"""Lines: who waits for the loop, and who of them is next.

A line's *members* share time in rounds. In each round a member may use `share_max_ms`; those who have some of that left
stand *early* and are served first (like new flows before old ones in FQ-CoDel, RFC 8290), the others stand *late*. When
all of these had their turn, the next round begins. A member that used more than its share, by work that could not be
interrupted, pays with its shares of later rounds; unused shares are not saved up.

There are lines of two kinds, one within the other: tenants stand in that of their `Group`, and the connections of a
tenant in its own. So the loop goes round by tenant first: 200 connections of one get what one connection of another
gets. Nobody starves: each time a line is served, one that stood early is, and one that stood late.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, Generic, Protocol, TypeVar

from penstock.node.limits import CONNECTION_SHARE_MS, TENANT_SHARE_MS, TURN_WORK_MS

ROUND_MS = CONNECTION_SHARE_MS / 2
NOBODY: Final[deque[Any]] = deque(maxlen=0)
"""Stands for a queue in which nobody is: an empty deque takes 600 bytes, and nearly all are empty."""

Key = tuple[str, str]
"""Of a tenant: what kind of name it has, and the name."""


class Member(Protocol):
    """Who stands in a line.

    Attributes: `round`, in which it last got a share; `share_ms`, the rest of that; `in_line`; `closed`: nothing of it
    is left.
    """

    round: int
    share_ms: float
    in_line: bool

    @property
    def closed(self) -> bool: ...


M = TypeVar("M", bound=Member)


class Line(Generic[M]):
    """See the module's head. Attributes: `early`, `late`; `rounds`, how many have begun."""

    __slots__ = ("_left_of_round", "early", "late", "rounds", "share_max_ms")

    def __init__(self, share_max_ms: float) -> None:
        self.share_max_ms = share_max_ms
        self.early: deque[M] = NOBODY
        self.late: deque[M] = NOBODY
        self.rounds = 0
        self._left_of_round = 0

    @property
    def waits(self) -> bool:
        """Whether somebody stands in it."""
        return bool(self.early or self.late)

    def renew(self, member: M) -> None:
        """Gives a member its shares of the rounds since it was last looked at."""
        most_ms = self.share_max_ms
        share_ms = member.share_ms + (self.rounds - member.round) * most_ms
        member.share_ms = share_ms if share_ms < most_ms else most_ms
        member.round = self.rounds

    def stand(self, member: M) -> None:
        """Puts a member at the end."""
        member.in_line = True
        if member.share_ms > 0:
            if self.early is NOBODY:
                self.early = deque()
            self.early.append(member)
        else:
            if self.late is NOBODY:
                self.late = deque()
            self.late.append(member)

    def serve(self, visit: Callable[[M], bool], has_room: Callable[[], bool]) -> None:
        """Serves members while there is room: those with a share left first, and in any case one of each kind.

        `visit` serves one, and returns whether it waits for more with the rest of its share.
        """
        one_early, one_late = bool(self.early), bool(self.late)
        while self.early and (one_early or has_room()):
            member = self.early.popleft()
            if member.share_ms <= 0:  # it has used that since, on arrival
                self.stand(member)
                continue
            one_early = False
            if visit(member):
                member.in_line = True
                self.early.appendleft(member)
        one_late = one_late or one_early
        while self.late and (one_late or has_room()):
            if self._visit_late(visit):
                one_late = False
        if not self.early:
            self.early = NOBODY
        if not self.late:
            self.late = NOBODY

    def _visit_late(self, visit: Callable[[M], bool]) -> bool:
        """Serves the first member without a share, unless it still owes time. Returns whether it did."""
        if not self._left_of_round:
            self.rounds += 1
            self._left_of_round = len(self.late)
        self._left_of_round -= 1
        member = self.late.popleft()
        self.renew(member)
        if member.share_ms <= 0 and not member.closed:
            self.late.append(member)
            return False
        if visit(member):
            member.in_line = True
            self.late.appendleft(member)
            self._left_of_round += 1
        return True


class Group(Line["Tenant"]):
    """Tenants that share what the loop has for them in each of its turns.

    Attributes:
        spent_ms: what their requests have used of shares in this turn of the loop.
        served: whose was the last of them. alone: nobody else's have executed in this turn.
    """

    __slots__ = ("_of_round_ms", "alone", "served", "spent_ms")

    def __init__(self) -> None:
        super().__init__(TENANT_SHARE_MS)
        self.spent_ms = 0.0
        self.served: Tenant | None = None
        self.alone = True
        self._of_round_ms = 0.0

    def has_room(self) -> bool:
        """Whether this turn of the loop has time left."""
        return self.spent_ms < TURN_WORK_MS

    def turn_ended(self) -> None:
        """The next turn of the loop begins; and the next round, if nobody waits, or only who was alone in this turn.

        While nobody waits, that need not be in each turn: nobody has used up a share yet.
        """
        early, late = self.early, self.late
        if not early and not late:
            self._of_round_ms += self.spent_ms
            if self._of_round_ms >= ROUND_MS:
                self._of_round_ms = 0.0
                self.rounds += 1
        elif self.alone and len(early) + len(late) == 1 and self.served is (early or late)[0]:
            self.rounds += 1
        self.spent_ms = 0.0
        self.alone = True

    def renew(self, member: Tenant) -> None:
        """Gives a tenant its shares, and if none of its connections has used up its own, these theirs."""
        passed = self.rounds - member.round
        if not member.late:
            member.rounds += passed
        share_ms = member.share_ms + passed * TENANT_SHARE_MS
        member.share_ms = share_ms if share_ms < TENANT_SHARE_MS else TENANT_SHARE_MS
        member.round = self.rounds


class Tenant(Line[Any]):
    """A line of connections, and itself a member of its group's. `connections`: how many it has."""

    __slots__ = ("connections", "group", "in_line", "key", "round", "share_ms")

    def __init__(self, key: Key, group: Group) -> None:
        super().__init__(CONNECTION_SHARE_MS)
        self.key = key
        self.group = group
        self.connections = 0
        self.round = group.rounds
        self.share_ms: float = TENANT_SHARE_MS
        self.in_line = False

    @property
    def closed(self) -> bool:
        return not self.connections

    @property
    def has_room(self) -> bool:
        """Whether it may go on now."""
        return self.share_ms > 0 and self.group.spent_ms < TURN_WORK_MS
