"""Which replicas retention looks at, and when: those that have changed since the last time, and those that are due.

It looks at intervals of `log.retention.check.interval.ms`, and not at all while there is nothing to look at. One look
is a few replicas at a time, with room for others in between.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import islice

from penstock.log.deadlines import Deadlines
from penstock.log.limits import RETENTION_LOOKED_AT_MAX, RETENTION_WALL_STEP_MS
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
        self._looking: dict[Replica, None] = {}
        self._passed_over: list[tuple[int, int, Replica]] = []
        self._look_number: int | None = None
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
        """A few replicas to look at now, of all those that are due, each once. `arm` sets the time for the next few.

        What changes or falls due only while others are looked at waits for the next look.
        """
        self.look_due = False
        if self._look_number is None:
            self._look_number = self._sequence
            self._earliest_look_ms = now_ms + self._table.settings.log_retention_check_interval_ms
            self._looking, self._changed = self._changed, {}
        wall_ms = self._wall.at(now_ms)
        for _ in range(RETENTION_LOOKED_AT_MAX):
            if not self._heap or self._heap[0][0] > wall_ms:
                break
            entry = heappop(self._heap)
            if entry[2].retention_ms == entry[0]:
                if entry[1] <= self._look_number:
                    self._looking[entry[2]] = None
                else:
                    self._passed_over.append(entry)
        else:
            return self._take_few()
        taken = self._take_few()
        if not self._looking:
            self._look_number = self._look_set_ms = None
            for entry in self._passed_over:
                heappush(self._heap, entry)
            self._passed_over.clear()
        return taken

    def _take_few(self) -> list[Replica]:
        taken = list(islice(self._looking, RETENTION_LOOKED_AT_MAX))
        for replica in taken:
            del self._looking[replica]
            replica.retention_ms = None
        return taken

    def arm(self) -> None:
        """Sets the next deadline: when there is something to look at, but not before the interval is over."""
        if not self._table.begun:
            return
        if self._look_number is not None:
            look_ms = self._deadlines.now_ms + 1
        else:
            due_ms = self._next_ms()
            if due_ms is None:
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
        """The earliest wall time at which there may be something to look at; 0 for now.

        If very many settings that have been replaced are in front, it may turn out that there is nothing.
        """
        if self._changed:
            return 0
        for _ in range(RETENTION_LOOKED_AT_MAX):
            if not self._heap or self._heap[0][2].retention_ms == self._heap[0][0]:
                break
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None
