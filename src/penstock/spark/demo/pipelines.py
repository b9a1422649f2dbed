"""The pipelines that run beside the demo's load: activity and security on clicks, operations on what is measured."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.errors import PenstockError
from penstock.spark.jobs import activity, operations, security
from penstock.spark.jobs.tables import rows_of
from penstock.spark.pipeline.context import Context
from penstock.spark.pipeline.job import Job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

INTERVAL_MS = 5_000
POLL_S = 0.2
INITIALIZING = "Initializing sources"
"""What Spark says of a query whose source is not there yet."""
JOBS: Mapping[str, tuple[Job, Mapping[str, Any]]] = {
    "activity": (activity.JOB, {"topic": "clicks", "counts_topic": "page-counts", "session_gap_seconds": 120}),
    "security": (security.JOB, {"topic": "clicks", "alerts_topic": "alerts"}),
    "operations": (operations.JOB, {"topics": ["operations", "activity"], "alerts_topic": "alerts"}),
}
TOPICS = ("page-counts", "alerts")
"""What the pipelines write to."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A microbatch: of which query, when it began (epoch seconds), how long it took, and its input rows."""

    query: str
    at: float
    seconds: float
    rows: int


class Pipelines:
    """The three pipelines in one Spark session. A context manager: leaving it stops their queries."""

    def __init__(self, spark: SparkSession, bootstrap: str, directory: Path) -> None:
        self._spark, self._bootstrap, self._directory = spark, bootstrap, directory
        self._queries: list[StreamingQuery] = []

    def start(self, proceed: Callable[[], None]) -> None:
        """Starts the queries. `proceed` is called meanwhile and may raise, to end early."""
        for name, (job, options) in JOBS.items():
            given = {option.name: option.default for option in job.options} | dict(options)
            context = Context(
                self._spark, name, self._bootstrap, given, self._directory / name, interval_ms=INTERVAL_MS
            )
            started: list[StreamingQuery] = list(job.run(context) or ())  # type: ignore[arg-type]
            self._queries += started
            while any(query.isActive and query.status["message"] == INITIALIZING for query in started):
                time.sleep(POLL_S)  # each starts a process of its own; all at once would wait for each other
                proceed()

    def check(self) -> None:
        """Raises PenstockError if a query has failed."""
        for query in self._queries:
            if (error := query.exception()) is not None:
                raise PenstockError(f"the query {query.name} failed: {str(error).splitlines()[0]}")

    def catch_up(self, proceed: Callable[[], None]) -> None:
        """Returns when all that is in the topics has been processed. `proceed` is called meanwhile."""

        def wait(query: StreamingQuery) -> None:
            with contextlib.suppress(Exception):  # what it failed with is told by `check`
                query.processAllAvailable()

        threads = [threading.Thread(target=wait, args=(query,), daemon=True) for query in self._queries]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            time.sleep(POLL_S)
            proceed()
        self.check()

    def batches(self) -> list[Batch]:
        """What the queries did; the first batch of each, which starts the workers, is left out."""
        return [batch for query in self._queries for batch in list(batches_of(query))[1:]]

    def table(self, job: str, name: str) -> pa.Table | None:
        """A result; None if there is none yet."""
        return rows_of(str(self._directory / job / "tables" / name))

    def __enter__(self) -> Pipelines:
        return self

    def __exit__(self, *_: object) -> None:
        for query in self._queries:
            with contextlib.suppress(Exception):  # the session may be gone already
                query.stop()


def batches_of(query: StreamingQuery) -> Iterator[Batch]:
    """The batches of a query that had input."""
    from datetime import datetime

    for progress in query.recentProgress:
        if progress.numInputRows:
            at = datetime.fromisoformat(progress.timestamp.replace("Z", "+00:00")).timestamp()
            seconds = progress.durationMs.get("triggerExecution", 0) / 1000
            yield Batch(str(query.name), at, seconds, int(progress.numInputRows))
