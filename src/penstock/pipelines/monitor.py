"""What is known of a running pipeline: its state and its figures, for the terminal, `status` and Prometheus.

Told by the pipeline's thread, read by others. Times are given, not read, so that a test needs no clock.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import asdict, dataclass
from typing import Any

from penstock.pipelines.limits import PIPELINE_ERROR_CHARACTERS, PIPELINE_RATE_MS, PIPELINE_RATE_SAMPLES
from penstock.pipelines.step import Figures
from penstock.server.histogram import Histogram

STARTING, RUNNING, WAITING, STOPPED, DONE, FAILED = "starting", "running", "waiting", "stopped", "done", "failed"
ENDED = (STOPPED, DONE, FAILED)


@dataclass(frozen=True, slots=True)
class Report:
    """A pipeline at one moment. Times are epoch milliseconds, 0: never; `lag` is -1 while it is unknown."""

    name: str
    job: str
    state: str
    pid: int
    started_ms: int
    updated_ms: int
    rows: int = 0
    rows_per_s: float = 0.0
    lag: int = -1
    batches: int = 0
    batch_ms: float = 0.0
    last_batch_ms: int = 0
    restarts: int = 0
    error: str = ""
    error_ms: int = 0

    def as_json(self) -> dict[str, Any]:
        """The contents of the status file."""
        return asdict(self)


class Monitor:
    """Collects what one pipeline did."""

    def __init__(self, name: str, job: str, pid: int, now_ms: int) -> None:
        self.name = name
        self.job = job
        self.seconds = Histogram()
        self._pid = pid
        self._lock = threading.Lock()
        self._state = STARTING
        self._started_ms = now_ms
        self._rows = self._batches = self._restarts = 0
        self._batch_ms = 0.0
        self._last_batch_ms = self._error_ms = 0
        self._error = ""
        self._lags: dict[str, int] = {}
        self._recent: deque[tuple[int, int]] = deque(maxlen=PIPELINE_RATE_SAMPLES)

    def enters(self, state: str) -> None:
        """The pipeline is in another state."""
        self._state = state

    @property
    def state(self) -> str:
        return self._state

    def did(self, part: str, figures: Figures, now_ms: int) -> None:
        """A part of the pipeline (a step, a query) did a batch."""
        with self._lock:
            self._lags[part] = figures.lag
            self._rows += figures.rows
            self._batches += 1
            self._batch_ms = figures.seconds * 1000
            self._last_batch_ms = now_ms
            self._recent.append((now_ms, figures.rows))
            self.seconds.add(figures.seconds)

    def lags(self, part: str, lag: int) -> None:
        """How far a part is behind, known without a batch."""
        with self._lock:
            self._lags[part] = lag

    def failed(self, text: str, now_ms: int) -> None:
        """The pipeline failed; whether it goes on is said by the state that it enters next."""
        with self._lock:
            self._error = text[:PIPELINE_ERROR_CHARACTERS]
            self._error_ms = now_ms
            self._lags.clear()

    def restarted(self) -> None:
        """Counts a restart of the pipeline."""
        with self._lock:
            self._restarts += 1

    def report(self, now_ms: int) -> Report:
        """A report of all figures at this moment."""
        with self._lock:
            while self._recent and self._recent[0][0] <= now_ms - PIPELINE_RATE_MS:
                self._recent.popleft()
            window_ms = min(PIPELINE_RATE_MS, max(1_000, now_ms - self._started_ms))
            rate = 0.0 if self._state in ENDED else sum(rows for _, rows in self._recent) * 1000 / window_ms
            known = [lag for lag in self._lags.values() if lag >= 0]
            return Report(
                name=self.name,
                job=self.job,
                state=self._state,
                pid=self._pid,
                started_ms=self._started_ms,
                updated_ms=now_ms,
                rows=self._rows,
                rows_per_s=rate,
                lag=sum(known) if known else -1,
                batches=self._batches,
                batch_ms=self._batch_ms,
                last_batch_ms=self._last_batch_ms,
                restarts=self._restarts,
                error=self._error,
                error_ms=self._error_ms,
            )
