"""How much passed lately: rates over a few windows of time, as Kafka measures them.

Amounts are added up in windows of a second or so; a rate is the sum of the last few, over the time since the first of
them began. So a burst counts for as long as its window is kept. `SimpleRate`, for replication, takes that time as it
is, and at least one window; `Rate`, for clients, takes it as if all windows but the current one had been there, empty,
before the first: who comes back after a pause may have a burst of what it has not used.
"""

from __future__ import annotations

from collections import deque

from penstock.config.values import INT_MAX

DELAY_MAX_MS = INT_MAX
"""The longest delay, as long as an answer can say."""


class SimpleRate:
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


class Rate:
    """Kafka's Rate: the sum of the kept windows, over the time since the first began and the windows missing before it.

    A window begins with the first amount after the one before is full, and is kept until its last amount is `windows`
    window widths old, so the oldest may have begun before.
    """

    __slots__ = ("_elapsed_min_ms", "_samples", "_total", "_window_ms", "_windows")

    def __init__(self, windows: int, window_ms: int) -> None:
        assert windows > 0, windows
        assert window_ms > 0, window_ms
        self._windows = windows
        self._window_ms = window_ms
        self._elapsed_min_ms = max(1, (windows - 1) * window_ms)
        self._samples: list[tuple[int, int, float]] = []  # (began, last amount, sum), oldest first
        self._total = 0.0

    def empty(self) -> Rate:
        """Another one with windows like these, of which nothing is known yet."""
        return Rate(self._windows, self._window_ms)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is kept, as of the last time that was given."""
        return not self._total

    def record(self, amount: float, now_ms: int) -> None:
        """Records an amount that has passed."""
        samples = self._samples
        if samples and now_ms - samples[0][1] >= self._windows * self._window_ms:
            self.forget(now_ms)
        self._total += amount
        if samples and now_ms < samples[-1][0] + self._window_ms:
            began_ms, _, before = samples[-1]
            samples[-1] = began_ms, now_ms, before + amount
            return
        samples.append((now_ms, now_ms, amount))
        if len(samples) > self._windows + 1:
            self._total -= samples.pop(0)[2]

    def take_back(self, amount: float, now_ms: int) -> None:
        """What was recorded has not passed after all: it is taken from the latest windows, as far as they are kept."""
        self.forget(now_ms)
        samples = self._samples
        for at in range(len(samples) - 1, -1, -1):
            began_ms, last_ms, recorded = samples[at]
            taken = min(amount, recorded)
            samples[at] = began_ms, last_ms, recorded - taken
            self._total -= taken
            amount -= taken

    def per_second(self, now_ms: int) -> float:
        """The rate now."""
        elapsed_ms = self.elapsed_ms(now_ms)
        return self._total * 1_000 / elapsed_ms

    def delay_ms(self, bound: float, now_ms: int, more: float = 0.0) -> int:
        """How long nothing may pass, once `more` has passed, for the rate to be at the bound then; 0 if it is not above
        that.
        """
        # Far below the bound, as nearly always: true of all that is kept, so also without what is to be forgotten.
        if (self._total + more) * 1_000 <= bound * self._elapsed_min_ms:
            return 0
        elapsed_ms = self.elapsed_ms(now_ms)
        excess = (self._total + more) * 1_000 / elapsed_ms - bound
        if excess <= 0:
            return 0
        wait_ms = excess / bound * elapsed_ms if bound > 0 else DELAY_MAX_MS
        return max(1, round(min(wait_ms, DELAY_MAX_MS)))

    def elapsed_ms(self, now_ms: int) -> int:
        """The time that the rate is measured over."""
        self.forget(now_ms)
        elapsed_ms = now_ms - self._samples[0][0] if self._samples else 0
        missing = self._windows - 1 - elapsed_ms // self._window_ms
        return max(1, elapsed_ms + max(0, missing) * self._window_ms)

    def forget(self, now_ms: int) -> None:
        """Leaves out windows that are too long ago."""
        samples, kept_ms = self._samples, self._windows * self._window_ms
        while samples and now_ms - samples[0][1] >= kept_ms:
            self._total -= samples.pop(0)[2]
        if not samples:
            self._total = 0.0
