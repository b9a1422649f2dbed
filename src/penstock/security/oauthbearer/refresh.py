"""When keys are fetched anew, and when a token is: rules about times that are given."""

from __future__ import annotations

from penstock.config.oauthbearer import KeySource
from penstock.config.token_source import TokenSource
from penstock.security.limits import JWKS_KEPT_MS, JWKS_WANTED_PAUSE_MS


class Refresh:
    """When the keys of one source are fetched.

    At once, then every `refresh_ms`; after a failure again after a pause that doubles up to `retry_max_ms`; and when a
    token names a key that is not there, but then at most every `JWKS_WANTED_PAUSE_MS`, whatever is asked for. Keys that
    could not be fetched anew are used for `JWKS_KEPT_MS`, or twice `refresh_ms` if that is longer.

    Attributes: `due_ms`, when to fetch next; `failures` in a row.
    """

    def __init__(self, source: KeySource, now_ms: int) -> None:
        self.due_ms = now_ms
        self.failures = 0
        self._source = source
        self._fetched_ms = now_ms
        self._wanted_ms = now_ms - JWKS_WANTED_PAUSE_MS

    def succeeded(self, now_ms: int) -> None:
        """Keys have come."""
        self._fetched_ms = now_ms
        self.failures = 0
        self.due_ms = now_ms + self._source.refresh_ms

    def failed(self, now_ms: int) -> None:
        """Keys could not be fetched."""
        pause_ms = min(self._source.retry_ms << min(self.failures, 32), self._source.retry_max_ms)
        self.failures += 1
        self.due_ms = now_ms + pause_ms

    def wanted(self, now_ms: int) -> None:
        """A token names a key that is not there."""
        if now_ms - self._wanted_ms >= JWKS_WANTED_PAUSE_MS and self.failures == 0:
            self._wanted_ms = now_ms
            self.due_ms = min(self.due_ms, now_ms)

    def is_stale(self, now_ms: int) -> bool:
        """Whether the last keys that came are too old to be believed."""
        return now_ms - self._fetched_ms >= max(JWKS_KEPT_MS, 2 * self._source.refresh_ms)


def renewed_at_ms(source: TokenSource, issued_at_ms: int | None, expires_at_ms: int, now_ms: int, drawn: float) -> int:
    """When a new token is asked for, as Kafka's ExpiringCredentialRefreshingLogin; `drawn` is a random number of
    [0, 1). All in milliseconds since the epoch.
    """
    part = source.window_factor + source.window_jitter * drawn
    least_ms, buffer_ms = source.min_period_s * 1000, source.buffer_s * 1000
    if now_ms + least_ms + buffer_ms > expires_at_ms:
        return now_ms + int((expires_at_ms - now_ms) * part)
    start_ms = now_ms if issued_at_ms is None else min(issued_at_ms, now_ms)
    proposed_ms = start_ms + int((expires_at_ms - start_ms) * part)
    return max(min(proposed_ms, expires_at_ms - buffer_ms), now_ms + least_ms)
