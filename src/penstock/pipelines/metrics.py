"""Pipelines' figures for Prometheus: GET /metrics, /healthz (the process works), /readyz (no pipeline has failed)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Self

from penstock.node.metrics import COUNTER, GAUGE, Sample
from penstock.pipelines.monitor import FAILED, RUNNING, Monitor, Report
from penstock.server.http import HttpEndpoint
from penstock.server.metrics import histogram_samples

FIGURES: Sequence[tuple[str, str, str, Callable[[Report], float]]] = (
    ("up", GAUGE, "1: it runs.", lambda r: int(r.state == RUNNING)),
    ("rows_total", COUNTER, "Rows done.", lambda r: r.rows),
    ("rows_per_second", GAUGE, "Rows done a second, over the last seconds.", lambda r: r.rows_per_s),
    ("lag", GAUGE, "Offsets that the brokers have and it has not done; -1: unknown.", lambda r: r.lag),
    ("restarts_total", COUNTER, "Times it was begun anew after a failure.", lambda r: r.restarts),
    ("last_commit_timestamp_seconds", GAUGE, "When its last batch ended.", lambda r: r.last_batch_ms / 1000),
    ("last_error_timestamp_seconds", GAUGE, "When it last failed; 0: never.", lambda r: r.error_ms / 1000),
)


def samples(monitors: Sequence[Monitor], now_ms: int) -> Iterator[Sample]:
    """All pipelines' figures; samples of one name follow each other."""
    reports = [monitor.report(now_ms) for monitor in monitors]
    for name, kind, text, value in FIGURES:
        for report in reports:
            yield Sample(f"penstock_pipeline_{name}", kind, text, value(report), {"pipeline": report.name})
    text = "How long batches took."
    for monitor in monitors:
        for each in histogram_samples("penstock_pipeline_batch_seconds", text, monitor.seconds):
            yield Sample(each.name, each.kind, each.help, each.value, {"pipeline": monitor.name, **each.labels})


def ready(monitors: Iterable[Monitor]) -> bool:
    """Whether no pipeline has failed for good."""
    return all(monitor.state != FAILED for monitor in monitors)


class MetricsThread:
    """The endpoint in a thread of its own; a context manager. `address` has the port that was bound."""

    def __init__(self, address: str, monitors: Sequence[Monitor], now_ms: Callable[[], int]) -> None:
        self.address = address
        self._endpoint = HttpEndpoint(lambda: samples(monitors, now_ms()), lambda: ready(monitors))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="metrics", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self.address = asyncio.run_coroutine_threadsafe(self._endpoint.start(self.address), self._loop).result()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        asyncio.run_coroutine_threadsafe(self._endpoint.stop(), self._loop).result()
        self._end()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
