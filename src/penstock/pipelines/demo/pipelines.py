"""The pipelines that run beside the demo's load: activity and security on clicks, operations on what is measured."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.client.client import Client
from penstock.errors import PenstockError
from penstock.pipelines.context import Context
from penstock.pipelines.demo.publisher import make_topic
from penstock.pipelines.job import Job
from penstock.pipelines.jobs import activity, operations, security
from penstock.pipelines.jobs.tables import rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

INTERVAL_MS = 5_000
POLL_S = 0.2
RESTARTS_MAX = 3
"""Of one pipeline. Spark gives a Python process 10 s to start, which a machine that is very busy may not keep."""
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


@dataclass(slots=True)
class Running:
    """A pipeline's queries, and how often they had to be started again."""

    job: Job
    context: Context
    queries: list[StreamingQuery] = field(default_factory=list)
    restarts: int = 0

    def stop(self) -> None:
        """Stops the queries; where they are is in their checkpoints."""
        for query in self.queries:
            with contextlib.suppress(Exception):  # the session may be gone already
                query.stop()

    def failed(self) -> StreamingQuery | None:
        """A query that has ended by itself."""
        return next((query for query in self.queries if query.exception() is not None), None)


class Pipelines:
    """The three pipelines in one Spark session. A context manager: leaving it stops their queries."""

    def __init__(self, spark: SparkSession, bootstrap: str, directory: Path) -> None:
        self._bootstrap, self._directory = bootstrap, directory
        self._running = []
        for name, (job, options) in JOBS.items():
            given = {option.name: option.default for option in job.options} | dict(options)
            context = Context(spark, name, bootstrap, given, directory / name, interval_ms=INTERVAL_MS)
            self._running.append(Running(job, context))

    def start(self, proceed: Callable[[], None]) -> None:
        """Starts the queries. `proceed` is called meanwhile and may raise, to end early."""
        asyncio.run(self._make_topics())
        for each in self._running:
            self._start(each, proceed)

    async def _make_topics(self) -> None:
        async with Client(self._bootstrap, client_id="demo-pipelines") as client:
            for topic in TOPICS:
                await make_topic(client, topic, 1)

    def check(self, proceed: Callable[[], None]) -> bool:
        """Starts pipelines again that failed, from their checkpoints; whether any had to be.

        Raises PenstockError if one has failed too often.
        """
        again = False
        for each in self._running:
            while (query := each.failed()) is not None:
                each.restarts += 1
                if each.restarts > RESTARTS_MAX:
                    why = str(query.exception()).splitlines()[0]
                    raise PenstockError(f"the query {query.name} failed {RESTARTS_MAX + 1} times: {why}")
                each.stop()
                self._start(each, proceed)
                again = True
        return again

    def catch_up(self, proceed: Callable[[], None]) -> None:
        """Returns when all that is in the topics has been processed. `proceed` is called meanwhile."""

        def wait(query: StreamingQuery) -> None:
            with contextlib.suppress(Exception):  # a query that fails is started again by `check`
                query.processAllAvailable()

        while True:
            queries = [query for each in self._running for query in each.queries]
            threads = [threading.Thread(target=wait, args=(query,), daemon=True) for query in queries]
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                time.sleep(POLL_S)
                proceed()
            if not self.check(proceed):
                return

    def batches(self) -> list[Batch]:
        """The batches of the queries, each without its first, which starts the workers, if there are others."""
        every = [list(batches_of(query)) for each in self._running for query in each.queries]
        return [batch for batches in every for batch in batches[1:] or batches]

    def table(self, job: str, name: str) -> pa.Table | None:
        """A result; None if there is none yet."""
        return rows_of(str(self._directory / job / "tables" / name))

    def _start(self, pipeline: Running, proceed: Callable[[], None]) -> None:
        pipeline.queries = list(pipeline.job.run(pipeline.context) or ())  # type: ignore[arg-type]
        while any(query.isActive and query.status["message"] == INITIALIZING for query in pipeline.queries):
            time.sleep(POLL_S)  # each starts a process of its own; all at once would wait for each other
            proceed()

    def __enter__(self) -> Pipelines:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._running:
            each.stop()


def batches_of(query: StreamingQuery) -> Iterator[Batch]:
    """The batches of a query that had input."""
    from datetime import datetime

    for progress in query.recentProgress:
        if progress.numInputRows:
            at = datetime.fromisoformat(progress.timestamp.replace("Z", "+00:00")).timestamp()
            seconds = progress.durationMs.get("triggerExecution", 0) / 1000
            yield Batch(str(query.name), at, seconds, int(progress.numInputRows))
