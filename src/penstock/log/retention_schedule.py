"""Which replicas retention looks at, and when: those that changed since the last look, and those whose time has come.

Looks are an interval apart (`log.retention.check.interval.ms`), and there is none while there is nothing to look at.
"""

from __future__ import annotations

from heapq import heappop, heappush

from penstock.log.deadlines import Deadlines
from penstock.log.limits import RETENTION_WALL_STEP_MS
from penstock.log.replica import Replica
from penstock.log.table import ReplicaTable
from penstock.records.wall import WallTime


class RetentionSchedule:
    """In wall time, as the records' timestamps are. Attributes: `look_due`, whether the time for a look has come."""

    def __init__(self, table: ReplicaTable, deadlines: Deadlines, wall: WallTime) -> None:
        self.look_due = False
        self._table = table
        self._deadlines = deadlines
        self._wall = wall
        self._changed: dict[tuple[str, int], Replica] = {}
        self._heap: list[tuple[int, int, Replica]] = []
        self._sequence = 0
        self._earliest_look_ms = 0
        self._look_set_ms: int | None = None
        self._ahead_ms = 0

    def begin(self, now_ms: int) -> None:
        """Sets the first look."""
        self._earliest_look_ms = now_ms + self._table.settings.log_initial_task_delay_ms
        self.arm()

    def changed(self, replica: Replica) -> None:
        """A replica has grown, or its rules are others: look at the next opportunity.

        One on its way into use begins where the other of its partition does.
        """
        if replica.is_future:
            return
        self._changed[replica.key] = replica
        if self._look_set_ms is None or self._look_set_ms > self._earliest_look_ms:
            self.arm()

    def expect(self, replica: Replica, due_ms: int | None) -> None:
        """Look again then; None for not before a change. Replaces what was expected before. `arm` follows."""
        replica.retention_ms = due_ms
        if due_ms is not None:
            self._sequence += 1
            heappush(self._heap, (due_ms, self._sequence, replica))

    def clock_moved(self) -> None:
        """The clock may have been set ahead: what falls due by it does so sooner."""
        if self._wall.ahead_ms - self._ahead_ms >= RETENTION_WALL_STEP_MS:
            self.arm()

    def take(self, now_ms: int) -> list[Replica]:
        """The replicas to look at now, each once."""
        self.look_due = False
        self._earliest_look_ms = now_ms + self._table.settings.log_retention_check_interval_ms
        taken, self._changed = self._changed, {}
        wall_ms = self._wall.at(now_ms)
        while self._heap and self._heap[0][0] <= wall_ms:
            due_ms, _, replica = heappop(self._heap)
            if replica.retention_ms == due_ms:
                taken.setdefault(replica.key, replica)
        for replica in taken.values():
            replica.retention_ms = None
        return list(taken.values())

    def arm(self) -> None:
        """Sets the next look: when there is something to look at, but not before the interval is over."""
        due_ms = self._next_ms()
        if due_ms is None or not self._table.begun:
            return
        self._ahead_ms = self._wall.ahead_ms
        look_ms = max(due_ms - self._ahead_ms, self._earliest_look_ms)
        if self._look_set_ms is None or look_ms < self._look_set_ms:
            self._look_set_ms = look_ms
            self._deadlines.at(look_ms, lambda _: self._look(look_ms))

    def _look(self, set_for_ms: int) -> None:
        if set_for_ms == self._look_set_ms:
            self._look_set_ms = None
            self.look_due = True

    def _next_ms(self) -> int | None:
        """The earliest wall time at which there is something to look at; 0 for now."""
        if self._changed:
            return 0
        while self._heap and self._heap[0][2].retention_ms != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None
