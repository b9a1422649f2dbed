"""Which replicas retention looks at, and when: those that have changed since the last time, and those that are due.

It looks at intervals of `log.retention.check.interval.ms`, and not at all while there is nothing to look at.
"""

from __future__ import annotations

from heapq import heappop, heappush

from penstock.log.deadlines import Deadlines
from penstock.log.limits import RETENTION_WALL_STEP_MS
from penstock.log.replica import Replica
from penstock.log.table import ReplicaTable
from penstock.records.wall import WallTime


class RetentionSchedule:
    """In wall time, like the records' timestamps. Attributes: `look_due`, whether it is time to look."""

    def __init__(self, table: ReplicaTable, deadlines: Deadlines, wall: WallTime) -> None:
        self.look_due = False
        self._table = table
        self._deadlines = deadlines
        self._wall = wall
        self._changed: dict[Replica, None] = {}
        self._heap: list[tuple[int, int, Replica]] = []
        self._sequence = 0
        self._earliest_look_ms = 0
        self._look_set_ms: int | None = None
        self._ahead_ms = 0

    def begin(self, now_ms: int) -> None:
        """Sets the first deadline."""
        self._earliest_look_ms = now_ms + self._table.settings.log_initial_task_delay_ms
        self.arm()

    def changed(self, replica: Replica) -> None:
        """A replica has grown, or its configuration has changed: look at it next time.

        A future replica begins where the one in use does.
        """
        if replica.own_name is not None:
            return
        self._changed[replica] = None
        if self._look_set_ms is None or self._look_set_ms > self._earliest_look_ms:
            self.arm()

    def expect(self, replica: Replica, due_ms: int | None) -> None:
        """Sets when to look again (None: not before a change), instead of any earlier setting. Then call `arm`."""
        replica.retention_ms = due_ms
        if due_ms is not None:
            self._sequence += 1
            heappush(self._heap, (due_ms, self._sequence, replica))

    def clock_moved(self) -> None:
        """The clock may have been set ahead, so that replicas are due sooner."""
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
                taken[replica] = None
        for replica in taken:
            replica.retention_ms = None
        return list(taken)

    def arm(self) -> None:
        """Sets the next deadline: when there is something to look at, but not before the interval is over."""
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
