"""Streaming queries as parts of a pipeline: what their last batches did, how far behind they are, why they ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from penstock.client.client import LATEST, Client, Partition
from penstock.client.security import UNSECURED, ClientSecurity
from penstock.errors import PenstockError
from penstock.pipelines.limits import PIPELINE_LAG_MS, PIPELINE_STOP_MS
from penstock.pipelines.monitor import Monitor
from penstock.pipelines.step import Did
from penstock.spark.group_offsets import GroupOffsets
from penstock.spark.load.load import Stop
from penstock.spark.read.group_listener import sender
from penstock.spark.read.stream_offsets import ends_of
from penstock.spark.session import one_line

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

POLL_S = 0.05


class QueryError(PenstockError):
    """A streaming query ended by itself; the message says why."""


class Queries:
    """The queries that one run of a job started.

    Args:
        queries: by whose names they are told apart.
        monitor: gets their figures.
        bootstrap: the brokers that they read from.
        security: TLS and login there.
        in_groups: whether each query's place is committed to the consumer group of its name.
    """

    def __init__(
        self,
        queries: Sequence[StreamingQuery],
        monitor: Monitor,
        bootstrap: str,
        *,
        security: ClientSecurity = UNSECURED,
        in_groups: bool = False,
    ) -> None:
        self._queries = [(query, query.name or str(query.id)) for query in queries]
        self._monitor = monitor
        self._bootstrap = bootstrap
        self._security = security
        self._seen: dict[str, int] = {}
        self._ends: dict[str, dict[Partition, int]] = {}
        self._asked_at = 0.0
        self._groups = {
            name: GroupOffsets(name, sender(bootstrap, name, security)) for _, name in self._queries if in_groups
        }

    def look(self, now_ms: int, *, once: bool) -> bool:
        """Tells the monitor of new batches; whether any query is at work. Raises QueryError when one failed."""
        working = False
        for query, name in self._queries:
            active = query.isActive
            self._hear(query, name, now_ms)
            if active:
                working = True
            elif error := query.exception():
                raise QueryError(f"query {name}: {one_line(error)}")
            elif not once:
                raise QueryError(f"query {name} was stopped, and not by this pipeline")
        if working and not once:
            self._measure_lag()
        return working

    def _hear(self, query: StreamingQuery, name: str, now_ms: int) -> None:
        """The batches that ended since the last look."""
        for progress in query.recentProgress:
            batch = int(progress["batchId"])
            if batch <= self._seen.get(name, -1):
                continue
            self._seen[name] = batch
            self._ends[name] = ends_of(progress)
            seconds = progress["batchDuration"] / 1000
            self._monitor.did(name, Did(rows_of(progress), -1, seconds), now_ms)
        if name in self._groups:
            self._groups[name].reached(self._ends.get(name, {}))
            self._groups[name].commit()

    def _measure_lag(self) -> None:
        """Asks the brokers how far behind the queries are; an answer that fails is no failure of the pipeline."""
        now = time.monotonic()
        if now < self._asked_at + PIPELINE_LAG_MS / 1000 or not any(self._ends.values()):
            return
        self._asked_at = now
        wanted = {p for ends in self._ends.values() for p in ends}
        try:
            latest = asyncio.run(latest_offsets(self._bootstrap, self._security, wanted))
        except PenstockError:
            return
        for name, ends in self._ends.items():
            if ends:
                self._monitor.lags(name, sum(max(0, latest[p] - end) for p, end in ends.items()))

    def stop(self, *, at_once: bool) -> None:
        """Stops all, each after the batch that it is in unless `at_once`."""
        deadline = time.monotonic() + (0 if at_once else PIPELINE_STOP_MS / 1000)
        for query, name in self._queries:
            while time.monotonic() < deadline and query.isActive and query.status["isTriggerActive"]:
                time.sleep(POLL_S)
            query.stop()
            if name in self._groups:
                for progress in query.recentProgress[-1:]:
                    self._groups[name].reached(ends_of(progress))
                self._groups[name].commit(last=True)


def rows_of(progress: Any) -> int:
    """Rows that a batch read; through Spark Connect only the sources tell."""
    total = progress["numInputRows"]
    return int(total) if total is not None else sum(int(source["numInputRows"]) for source in progress["sources"])


async def latest_offsets(
    bootstrap: str, security: ClientSecurity, partitions: Iterable[Partition]
) -> dict[Partition, int]:
    """The end of each partition, as the brokers say."""
    client = Client(bootstrap, client_id="penstock-pipeline", timeout_ms=PIPELINE_LAG_MS, security=security)
    async with client:
        found = await client.offsets(sorted(partitions), LATEST)
        return {partition: found[partition].offset for partition in partitions}


def wait(stop: Stop, until: float) -> None:
    """Waits until a moment of the monotonic clock, or until told to stop."""
    if (left := until - time.monotonic()) > 0:
        stop.wait(left)
