"""Which logs the cleaner looks at, and when: those that have got a closed segment since, and those that grow due.

It looks at intervals of `log.cleaner.backoff.ms`, and not at all while there is nothing to look at.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import islice

from penstock.log.deadlines import Deadlines
from penstock.log.limits import CLEANING_BACKOFF_MIN_MS, CLEANING_LOOKED_AT_MAX, RETENTION_WALL_STEP_MS
from penstock.log.replica import Replica
from penstock.log.table import ReplicaTable
from penstock.records.wall import WallTime


class CleaningSchedule:
    """Times of the heap are wall time, like the records' timestamps. Attributes: `look_due`, whether it is time."""

    def __init__(self, table: ReplicaTable, deadlines: Deadlines, wall: WallTime) -> None:
        self.look_due = False
        self._table = table
        self._deadlines = deadlines
        self._wall = wall
        self._changed: dict[Replica, None] = {}
        self._heap: list[tuple[int, int, Replica]] = []
        self._in_heap: dict[Replica, int] = {}
        self._sequence = 0
        self._earliest_look_ms = 0
        self._look_set_ms: int | None = None
        self._ahead_ms = wall.ahead_ms

    def begin(self, now_ms: int) -> None:
        """Sets the first deadline."""
        self._earliest_look_ms = now_ms + self._table.settings.log_initial_task_delay_ms
        self.arm()

    def changed(self, replica: Replica) -> None:
        """A replica may have more to clean, or its configuration has changed: look at it next time."""
        if not replica.is_future:
            self._changed[replica] = None
            self.arm()

    def look_at(self, replica: Replica, wall_ms: int) -> None:
        """Sets when to look at a replica again, if not before. Then call `arm`."""
        if self._in_heap.get(replica, wall_ms + 1) > wall_ms:
            self._in_heap[replica] = wall_ms
            self._sequence += 1
            heappush(self._heap, (wall_ms, self._sequence, replica))

    def look_later(self, replica: Replica, now_ms: int) -> None:
        """Sets when to look at a replica for which it is too early: after the interval. Then call `arm`."""
        self.look_at(replica, self._wall.at(now_ms) + self._backoff_ms)

    def clock_moved(self) -> None:
        """The clock may have been set: ahead, so that replicas are due sooner, or back, so that none of the times at
        which to look again means what it was set for.
        """
        moved_ms = self._wall.ahead_ms - self._ahead_ms
        if moved_ms <= -RETENTION_WALL_STEP_MS:
            self._changed.update(dict.fromkeys(self._in_heap))
            self._heap.clear()
            self._in_heap.clear()
        if abs(moved_ms) >= RETENTION_WALL_STEP_MS:
            self._ahead_ms = self._wall.ahead_ms
            self.arm()

    @property
    def _backoff_ms(self) -> int:
        return max(self._table.settings.log_cleaner_backoff_ms, CLEANING_BACKOFF_MIN_MS)

    def take(self, now_ms: int) -> list[Replica]:
        """The replicas to look at now, each once; if there are many, the others directly after them."""
        self.look_due = False
        wall_ms = self._wall.at(now_ms)
        while self._heap and self._heap[0][0] <= wall_ms:
            due_ms, _, replica = heappop(self._heap)
            if self._in_heap.get(replica) == due_ms:
                del self._in_heap[replica]
                self._changed[replica] = None
        taken = list(islice(self._changed, CLEANING_LOOKED_AT_MAX))
        for replica in taken:
            del self._changed[replica]
        self._earliest_look_ms = now_ms + (0 if self._changed else self._backoff_ms)
        return taken

    def arm(self) -> None:
        """Sets the next deadline: when there is something to look at, but not before the interval is over."""
        if not self._table.begun or not (self._changed or self._heap):
            return
        due_ms = 0 if self._changed else self._heap[0][0] - self._wall.ahead_ms
        look_ms = max(due_ms, self._earliest_look_ms)
        if self._look_set_ms is None or look_ms < self._look_set_ms:
            self._look_set_ms = look_ms
            self._deadlines.at(look_ms, lambda _: self._look(look_ms))

    def _look(self, set_for_ms: int) -> None:
        if set_for_ms == self._look_set_ms:
            self._look_set_ms = None
            self.look_due = True
