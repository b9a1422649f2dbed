"""Wall time: what records are stamped with, and what is kept by its stamps.

A node has two times. `now_ms`, which every event brings, only counts on: sessions, elections, fencing, time-outs and
retries go by it, and nobody who sets the machine's clock moves it. Wall time is `now_ms` and how far the machine's
clock is ahead of it. It is for what others read as a date or compare with one: timestamps of records and commits,
bounds on the timestamps of producers, the age by which segments, offsets, producers and snapshots are given up.

A stamp may lie in the future: the clock was set back since, or another machine's was ahead. So what waits for a stamp
to come of age asks `within`, and does not wait for a day that a clock was wrong.

`now_ms` leaves out time in which the process did not run. What others were promised to end goes by `elapsed`, which
counts it: a login that lasts ten minutes is over after ten, even if the node stood still for nine of them.
"""

from __future__ import annotations


class WallTime:
    """How far the machine's clock is ahead of `now_ms`, in `ahead_ms` (negative: behind), and how long the process did
    not run, in `stopped_ms`. The shell alone sets them."""

    __slots__ = ("ahead_ms", "stopped_ms")

    def __init__(self, ahead_ms: int = 0) -> None:
        self.ahead_ms = ahead_ms
        self.stopped_ms = 0

    def at(self, now_ms: int) -> int:
        """The machine's clock time, in milliseconds since the epoch."""
        return now_ms + self.ahead_ms

    def elapsed(self, now_ms: int) -> int:
        """`now_ms` with the time in which the process did not run."""
        return now_ms + self.stopped_ms

    def within(self, stamp_ms: int, span_ms: int, now_ms: int) -> bool:
        """Whether a timestamp is less than `span_ms` old. One in the future is not, since its age is unknown."""
        return 0 <= now_ms + self.ahead_ms - stamp_ms < span_ms
