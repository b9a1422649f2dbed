"""How fast worker processes read and write for the log cleaner, and when they wait.

A pass says after each `PACED_BYTES` what it has read and written, and goes on when it is told to. All workers of a node
share `log.cleaner.io.max.bytes.per.second`, as it is at that moment: what each has moved is put on one account that is
paid off at this rate, first come, first served. While appends to the directory are slow the pass waits as well, but not
for ever: a disk that is always slow has its logs cleaned, too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic

from penstock.server.limits import PACE_LOOK_S, PACE_SLOW_DISK_MAX_S

LEAST_S = 0.001
"""Nobody waits for less; it stays on the account."""


class Pace:
    """Shared by all threads that have workers do something.

    Args:
        bytes_per_second: the rate now. A rate of nothing, or less, lets nobody go on.
        is_slow: whether the appends of a directory are slow now, by its index.
        clock_s: a monotonic clock in seconds.

    Attributes: `waited_s`, how long all have waited so far.
    """

    def __init__(
        self,
        bytes_per_second: Callable[[], float],
        is_slow: Callable[[int], bool],
        *,
        clock_s: Callable[[], float] = monotonic,
    ) -> None:
        self.waited_s = 0.0
        self._bytes_per_second = bytes_per_second
        self._is_slow = is_slow
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._moved_bytes = 0
        self._paid_bytes = 0.0
        self._paid_s = clock_s()

    def wait(self, directory: int, moved_bytes: int, pause: Callable[[float], bool]) -> None:
        """Returns when somebody who has read and written so many bytes in a directory may go on.

        `pause` waits for so many seconds, and says whether all is over; then this returns, too.
        """
        began_s = self._clock_s()
        with self._lock:
            self._pay(began_s)
            self._moved_bytes += moved_bytes
            account_bytes = self._moved_bytes
        while (left_s := self._left_s(account_bytes, directory, began_s)) > 0:
            if pause(min(left_s, PACE_LOOK_S)):
                break
        with self._lock:
            self.waited_s += self._clock_s() - began_s

    def _left_s(self, account_bytes: int, directory: int, began_s: float) -> float:
        """For how long to wait, as things are now."""
        now_s = self._clock_s()
        with self._lock:
            self._pay(now_s)
            due_bytes = account_bytes - self._paid_bytes
        rate = self._bytes_per_second()
        left_s = 0.0
        if due_bytes > 0:
            left_s = PACE_LOOK_S if rate <= 0 else due_bytes / rate
        if self._is_slow(directory):
            left_s = max(left_s, began_s + PACE_SLOW_DISK_MAX_S - now_s)
        return left_s if left_s >= LEAST_S else 0.0

    def _pay(self, now_s: float) -> None:
        """Pays for the time since the last payment. Time in which nobody moved anything is not saved up."""
        rate, seconds = self._bytes_per_second(), now_s - self._paid_s
        if seconds > 0 and rate > 0:  # a setting may be Infinity or NaN, of which no account would recover
            self._paid_bytes = min(self._paid_bytes + seconds * rate, self._moved_bytes)
        self._paid_s = max(self._paid_s, now_s)
