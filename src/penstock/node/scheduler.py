"""When and how the parts of a node do things: the time, timers, long work in steps, effects, and a guard around each.

An unexpected exception ends only the thing that was being done, is reported to `bugs`, and everything else goes on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from penstock.errors import Report
from penstock.log.manager import NotOpen
from penstock.node.bugs import Bugs
from penstock.node.duties import Duty
from penstock.node.effects import Effect
from penstock.node.timers import TimerWheel
from penstock.records.wall import WallTime


class Scheduler:
    """See the module's head.

    Attributes:
        now_ms: the time of the event being handled.
        wall: the time that records are stamped with. random: all randomness of the node.
        effects: for the shell to carry out, in order.
        working: long work that waits for its next step.
        duties: parts of the node with deadlines of their own.
        stirred: an event may have moved a deadline without `wake_by`, and the duties have not been asked since.
        untaken: so it was before they were asked, and the metadata log's operations have not been taken since.
    """

    __slots__ = (
        "_deadline_ms", "bugs", "duties", "effects", "now_ms", "random", "stirred", "timers", "untaken", "wall",
        "working",
    )  # fmt: skip

    def __init__(self, random: Random, wall: WallTime, bug: Report | None = None) -> None:
        self.now_ms = 0
        self.wall = wall
        self.random = random
        self.bugs = Bugs(lambda: self.now_ms, bug)
        self.timers = TimerWheel(self.bugs.of("timer"), self.wake_by)
        self.effects: list[Effect] = []
        self.working: deque[Iterator[None]] = deque()
        self.duties: tuple[Duty, ...] = ()
        self.stirred = True
        self.untaken = False
        self._deadline_ms: int | None = None

    def tick(self, now_ms: int) -> None:
        """Fires the timers and does the duties that are due."""
        self.stirred = True
        self.timers.advance(now_ms)
        for duty in self.duties:
            duty.tick(now_ms)

    def wake_by(self, deadline_ms: int) -> None:
        """Something is due at this time. The logs, the coordinators and the timers say so when they are given it."""
        if self._deadline_ms is None or deadline_ms < self._deadline_ms:
            self._deadline_ms = deadline_ms

    def next_deadline_ms(self) -> int | None:
        """When `tick` must be called. It may be sooner than anything is due: a deadline that is put off is not told."""
        if self.stirred:
            self.stirred, self.untaken = False, True
            self._deadline_ms = self.soonest_deadline_ms()
        return self._deadline_ms

    def soonest_deadline_ms(self) -> int | None:
        """When something is due, by the timers and all duties."""
        soonest = self.timers.next_deadline_ms()
        for duty in self.duties:
            deadline_ms = duty.next_deadline_ms()
            if deadline_ms is not None and (soonest is None or deadline_ms < soonest):
                soonest = deadline_ms
        return soonest

    def emit(self, effect: Effect) -> None:
        """Adds an effect for the shell."""
        self.effects.append(effect)

    def do(self, work: Iterator[None]) -> None:
        """Adds long work; each tick does one `next` of one piece of work, in turn."""
        self.working.append(work)

    def step(self) -> None:
        """Does one step of the long work whose turn it is."""
        work = self.working.popleft()
        if next(work, self) is not self:
            self.working.append(work)

    def bug(self, place: str, what: str, error: Exception) -> None:
        """Reports `error`, which should never happen and ended `what`. See `penstock.node.bugs`."""
        self.bugs.caught(place, what, error)

    def guarded(self, place: str, what: str, work: Callable[..., object], *args: Any) -> None:
        """Calls `work(*args)`; an exception ends only this call."""
        try:
            work(*args)
        except Exception as error:
            self.bug(place, what, error)

    def when_open(self, missing: NotOpen, then: Callable[[int], None]) -> None:
        """Calls `then(now_ms)` when a log is open, or cannot be opened."""
        name = missing.opening.name
        missing.opening.when_done.append(
            lambda now_ms: self.guarded("operation", f"the opening of {name}", then, now_ms)
        )
