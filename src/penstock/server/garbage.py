"""When a server process collects cyclic garbage: young objects often, all only when nobody waits.

Python looks through all objects whenever a quarter of them is new; with the state of ten thousand partitions that is a
pause of 50 ms in the middle of a request. Here the young generations are collected as usual, in passes of about a
millisecond, and the old one by a task: when the loop has been quiet, or at the latest after `LATEST_S`. Long-lived
objects here have no cycles, so the old generation has little garbage, which can wait.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from time import monotonic

from penstock.server.histogram import Histogram

YOUNG_OBJECTS = 2_000
MIDDLE_PASSES = 5
NEVER = 1 << 30
CHECK_EVERY_S = 10.0
QUIET_TURNS = 50
"""Turns between two checks up to which the loop counts as quiet."""
WORTH_PASSES = 10
"""Middle passes since the last full one that make the next worth its time: Python's own default."""
LATEST_S = 600.0


class Collector:
    """Decides at each check whether to collect everything now.

    Args:
        turns: returns how many turns the loop has had. clock_s: monotonic seconds.
    """

    def __init__(self, turns: Callable[[], int], clock_s: Callable[[], float] = monotonic) -> None:
        self._turns = turns
        self._clock_s = clock_s
        self._seen = turns()
        self._collected_s = clock_s()

    def due(self, passes: int) -> bool:
        """Whether to collect now, after this many middle passes since the last full one; call once a check."""
        seen, self._seen = self._seen, self._turns()
        now_s = self._clock_s()
        quiet = self._seen - seen <= QUIET_TURNS
        if passes < WORTH_PASSES or not (quiet or now_s - self._collected_s >= LATEST_S):
            return False
        self._collected_s = now_s
        return True


def collect_young_only() -> None:
    """Leaves the old generation to `collect_when_quiet`, and freezes all present objects."""
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, MIDDLE_PASSES, NEVER)
    gc.enable()


async def collect_when_quiet(turn_seconds: Histogram) -> None:
    """Runs until it is cancelled. A collection is timed like a turn of the loop, which it blocks as one does."""
    collector = Collector(lambda: turn_seconds.count)
    while True:
        await asyncio.sleep(CHECK_EVERY_S)
        if collector.due(gc.get_count()[2]):
            started_s = monotonic()
            gc.collect()
            turn_seconds.add(monotonic() - started_s)
