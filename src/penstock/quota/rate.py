"""How much passed lately: a rate over a few windows of time, as Kafka's SimpleRate.

Amounts are added up in windows of a second or so; the rate is the sum of the last few, over the time since the first of
them began. So a burst counts for as long as its window is kept, and what was allowed and not used is not saved up.
"""

from __future__ import annotations

from collections import deque


class Rate:
    """A rate of something per second. `window_ms` is the width of a window, `windows` how many are kept."""

    __slots__ = ("_samples", "_total", "_window_ms", "_windows")

    def __init__(self, *, windows: int = 11, window_ms: int = 1_000) -> None:
        assert windows > 0, windows
        assert window_ms > 0, window_ms
        self._windows = windows
        self._window_ms = window_ms
        self._samples: deque[tuple[int, float]] = deque()
        self._total = 0.0

    def record(self, amount: float, now_ms: int) -> None:
        """Records an amount that has passed."""
        self._forget(now_ms)
        samples = self._samples
        self._total += amount
        if samples and now_ms < samples[-1][0] + self._window_ms:
            start_ms, before = samples.pop()
            samples.append((start_ms, before + amount))
        else:
            samples.append((now_ms, amount))

    def per_second(self, now_ms: int) -> float:
        """The rate now."""
        self._forget(now_ms)
        if not self._samples:
            return 0.0
        elapsed_ms = max(now_ms - self._samples[0][0], self._window_ms)
        return self._total * 1_000 / elapsed_ms

    def below_at_ms(self, bound: float, now_ms: int) -> int:
        """When the rate will be at most `bound`, if nothing more passes; `now_ms` if it is."""
        if self.per_second(now_ms) <= bound:
            return now_ms
        total, kept_ms = self._total, self._windows * self._window_ms
        at_ms = now_ms
        for start_ms, amount in self._samples:
            gone_ms = start_ms + kept_ms
            if bound > 0 and total * 1_000 / (gone_ms - start_ms) <= bound:
                return max(at_ms, start_ms - int(-total * 1_000 // bound))
            at_ms, total = gone_ms, total - amount
        return at_ms

    def _forget(self, now_ms: int) -> None:
        """Leaves out windows that are too long ago."""
        samples, kept_ms = self._samples, self._windows * self._window_ms
        while samples and now_ms - samples[0][0] >= kept_ms:
            self._total -= samples.popleft()[1]
        if not samples:
            self._total = 0.0
