"""When and how the parts of a node do things: the time, timers, long work in steps, effects, and a guard around each.

What raises what it should not ends the one thing that was being done, is told to `bugs`, and everything else goes on.
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
        effects: what the shell is to do, in order.
        working: long work that waits for its next step. duties: parts of the node that have times of their own.
    """

    __slots__ = ("bugs", "duties", "effects", "now_ms", "random", "timers", "wall", "working")

    def __init__(self, random: Random, wall: WallTime, bug: Report | None = None) -> None:
        self.now_ms = 0
        self.wall = wall
        self.random = random
        self.bugs = Bugs(lambda: self.now_ms, bug)
        self.timers = TimerWheel(self.bugs.of("timer"))
        self.effects: list[Effect] = []
        self.working: deque[Iterator[None]] = deque()
        self.duties: tuple[Duty, ...] = ()

    def emit(self, effect: Effect) -> None:
        """Has the shell do something."""
        self.effects.append(effect)

    def do(self, work: Iterator[None]) -> None:
        """Has long work done, one `next` a tick, in turn with other long work."""
        self.working.append(work)

    def step(self) -> None:
        """Does one step of the long work whose turn it is."""
        work = self.working.popleft()
        if next(work, self) is not self:
            self.working.append(work)

    def bug(self, place: str, what: str, error: Exception) -> None:
        """`error`, which should never happen, ended `what`; the node goes on. See `penstock.node.bugs`."""
        self.bugs.caught(place, what, error)

    def guarded(self, place: str, what: str, work: Callable[..., object], *args: Any) -> None:
        """Calls `work(*args)`. What it raises ends it alone."""
        try:
            work(*args)
        except Exception as error:
            self.bug(place, what, error)

    def when_open(self, missing: NotOpen, then: Callable[[int], None]) -> None:
        """Calls `then(now_ms)` when a log is open, or cannot be."""
        name = missing.opening.name
        missing.opening.when_done.append(
            lambda now_ms: self.guarded("operation", f"the opening of {name}", then, now_ms)
        )
