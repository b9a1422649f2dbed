"""A bucket of tokens, which bounds a rate and lets bursts through (KIP-599, Kafka's TokenBucket).

It is filled at the rate of the quota, up to what that gives in all its windows. Who takes more than it holds leaves a
debt, and waits until that is paid: so one large change is possible whatever the quota, and the mean rate is kept.
"""

from __future__ import annotations

import math

from penstock.quota.rate import DELAY_MAX_MS

NO_DEBT_TOKENS = -1e-9
"""What is missing because fractions are added up is no debt: who has waited as told must not be told to wait again."""


class TokenBucket:
    """See the module's head. `rate`: tokens a second, which may be set at any time; a new bucket is full.

    Attributes: `rate`; `windows`, `window_ms`, over which tokens are saved up.
    """

    __slots__ = ("_filled_ms", "_tokens", "rate", "window_ms", "windows")

    def __init__(self, rate: float, windows: int, window_ms: int, now_ms: int) -> None:
        self.rate = rate
        self.windows = windows
        self.window_ms = window_ms
        self._filled_ms = now_ms
        self._tokens = self._burst

    @property
    def _burst(self) -> float:
        return self.rate * self.windows * self.window_ms / 1_000

    def tokens(self, now_ms: int) -> float:
        """What is in the bucket now; below 0: a debt."""
        elapsed_ms = max(0, now_ms - self._filled_ms)
        self._filled_ms = max(now_ms, self._filled_ms)
        self._tokens = min(self._burst, self._tokens + self.rate * elapsed_ms / 1_000)
        return self._tokens

    def take(self, count: float, now_ms: int) -> None:
        """Takes tokens, whether they are there or not."""
        self._tokens = self.tokens(now_ms) - count

    def delay_ms(self, now_ms: int) -> int:
        """How long it takes to pay a debt, all of it, where Kafka rounds; 0 if there is none."""
        tokens = self.tokens(now_ms)
        if tokens >= NO_DEBT_TOKENS:
            return 0
        wait_ms = -tokens / self.rate * 1_000 if self.rate > 0 else DELAY_MAX_MS
        return math.ceil(min(wait_ms, DELAY_MAX_MS))

    def is_full(self, now_ms: int) -> bool:
        """Whether it is as a new one is."""
        return self.tokens(now_ms) >= self._burst
