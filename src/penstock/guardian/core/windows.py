"""What is written to a partition, in windows of five minutes, kept for a day: two bytes each.

Kafka tells no rates. So they are differences: of the size of the leader's replica, as long as it grows; where it has
shrunk since, because segments were deleted, of the end offset, by the bytes that a record has had so far. What was
before the first look, and between two looks with neither, is not known; a window of which nothing is known is left out.

A rate is kept as a logarithm, with 1/1024 of a power of two as its unit: an error below 0.04 %.
"""

from __future__ import annotations

from array import array
from math import log2

from penstock.guardian.core.limits import GUARDIAN_WINDOWS_KEPT

WINDOW_MS = 300_000
UNIT = 1_024
UNKNOWN = 65_535
"""In place of a rate: nothing is known of the window."""


def coded(rate: float) -> int:
    """A rate, 0 or more, in two bytes."""
    return min(round(log2(1 + rate) * UNIT), UNKNOWN - 1)


def decoded(code: int) -> float:
    """The rate that was coded."""
    return float(2 ** (code / UNIT) - 1)


class Windows:
    """What is written to one partition; see the module's head. Times are of a clock that only counts on."""

    __slots__ = (
        "_bytes", "_codes", "_end", "_grown_bytes", "_grown_records", "_known_ms", "_leader", "_records", "_size",
        "_size_ms", "_window",
    )  # fmt: skip

    def __init__(self) -> None:
        self._codes = array("H")
        self._window = -1
        self._bytes = 0.0
        self._known_ms = 0
        self._leader = -1
        self._size = self._end = -1
        self._size_ms = 0
        self._records = 0
        self._grown_bytes = self._grown_records = 0

    def saw_size(self, leader: int, size_bytes: int, now_ms: int) -> None:
        """The size of the replica that leads, as its broker has just told."""
        before, before_ms = self._size, self._size_ms
        same = leader == self._leader
        if not same:
            self._leader, self._end = leader, -1
        records, self._records = self._records, 0
        self._size, self._size_ms = size_bytes, now_ms
        if not same or before < 0 or now_ms <= before_ms:
            return
        grown = size_bytes - before
        if grown >= 0:
            self._grown_bytes += grown
            self._grown_records += records
            self._add(grown, before_ms, now_ms)
        elif self._grown_records:
            self._add(records * self._grown_bytes / self._grown_records, before_ms, now_ms)

    def saw_end(self, leader: int, offset: int) -> None:
        """The end offset, as the leader has just told."""
        if leader != self._leader:
            return  # its size comes first
        if 0 <= self._end <= offset:
            self._records += offset - self._end
        self._end = offset

    def _add(self, written: float, begin_ms: int, end_ms: int) -> None:
        window = end_ms // WINDOW_MS
        if window != self._window:
            self._close(window)
        self._bytes += written
        self._known_ms += end_ms - begin_ms

    def _close(self, window: int) -> None:
        """A new window begins; those since the last one in which anything was known are unknown."""
        if self._window >= 0:
            self._codes.append(coded(self._bytes * 1000 / self._known_ms) if self._known_ms else UNKNOWN)
            missed = min(window - self._window - 1, GUARDIAN_WINDOWS_KEPT)
            self._codes.extend([UNKNOWN] * missed)
            del self._codes[: max(0, len(self._codes) - GUARDIAN_WINDOWS_KEPT)]
        self._window, self._bytes, self._known_ms = window, 0.0, 0

    def rates(self) -> list[float]:
        """Bytes a second in each window that is known, ascending; of the present one only if there is no other."""
        known = sorted(code for code in self._codes if code != UNKNOWN)
        if not known and self._known_ms:
            return [self._bytes * 1000 / self._known_ms]
        return [decoded(code) for code in known]

    def figures(self) -> tuple[float, float, int] | None:
        """The median and the 95th percentile of the windows, and of how many; None where nothing is known."""
        rates = self.rates()
        if not rates:
            return None
        count = len(rates)
        return rates[(count - 1) // 2], rates[-(-95 * count // 100) - 1], count
