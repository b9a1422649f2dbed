"""What a job is given: the Spark session, its options, a directory, and ways to read, write and set records aside.

Everything here is DataFrames and options, so it works in a local session, on a cluster and through Spark Connect.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from penstock.client.security import UNSECURED, ClientSecurity
from penstock.pipelines.step import Did, Figures
from penstock.spark.load.load import Stop

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

OutputMode = Literal["append", "update", "complete"]


class DeadLetters(Protocol):
    """A place for dead letters."""

    def write(self, context: Context, rows: DataFrame, query: str) -> list[StreamingQuery]:
        """Writes a batch, or starts the query that writes a stream."""
        ...


def _ignore(_figures: Figures) -> None:
    """Discards figures that nobody asked for."""


@dataclass(slots=True)
class Context:
    """One run of one pipeline.

    Attributes:
        spark: the session, which other pipelines may share.
        name: of the pipeline.
        bootstrap: brokers, HOST:PORT separated by commas.
        options: the job's options, checked, with their defaults.
        directory: the pipeline's own; checkpoints and state are below it.
        stop: set when the pipeline is to end; steps that take long look at it.
        kafka: further client options of the file's `[kafka]`, as `kafka.NAME`; those of security among them.
        security: what these say about TLS and login, for clients of the job's own.
        interval_ms: of a microbatch, and of a step that has none of its own.
        once: work until caught up, then end.
        checkpoints: directory or URI of the queries' checkpoints; below `directory` by default.
        dead_letter_sink: where `dead_letters` puts them; None drops them.
        listener: what `heard` tells.
        told: gets a line for a person: trouble that does not end the pipeline.
    """

    spark: SparkSession
    name: str
    bootstrap: str
    options: Mapping[str, Any]
    directory: Path
    stop: Stop = field(default_factory=threading.Event)
    kafka: Mapping[str, str] = field(default_factory=dict)
    security: ClientSecurity = UNSECURED
    interval_ms: int = 1000
    once: bool = False
    checkpoints: str = ""
    dead_letter_sink: DeadLetters | None = None
    listener: Callable[[Figures], None] = _ignore
    told: Callable[[str], None] = lambda _: None

    def heard(self, rows: int, *, lag: int = 0, seconds: float = 0.0) -> None:
        """Figures of work that is neither a step's nor a streaming query's."""
        self.listener(Did(rows, lag, seconds))

    def trigger(self) -> dict[str, Any]:
        """For `writer.trigger(**context.trigger())`: every `interval_ms`, or all there is when run `once`."""
        return {"availableNow": True} if self.once else {"processingTime": f"{self.interval_ms} milliseconds"}

    def checkpoint(self, query: str) -> str:
        """The checkpoint location of one of the pipeline's streaming queries."""
        return f"{(self.checkpoints or str(self.directory / 'checkpoints')).rstrip('/')}/{query}"

    def source(self) -> dict[str, str]:
        """Options of `format("penstock")` that say where the brokers are."""
        return {"kafka.bootstrap.servers": self.bootstrap, **self.kafka}

    def read(self, *topics: str, starting: str = "earliest", **options: str) -> DataFrame:
        """Topics as a stream, with the connector's columns; `starting` counts where the checkpoint has nothing."""
        from penstock.spark.session import parallelism
        from penstock.spark.starting import TOPICS, share

        share(self.spark, TOPICS)
        given = {**self.source(), "subscribe": ",".join(topics), "startingOffsets": starting}
        given |= {"penstock.parallelism": str(parallelism(self.spark)), **options}
        return self.spark.readStream.format("penstock").options(**given).load()

    def write(self, rows: DataFrame, topic: str, *, query: str, mode: OutputMode = "append") -> StreamingQuery:
        """Starts a query which writes a stream's `value`, and `key` if there is one, to a topic: at least once."""
        from penstock.spark.starting import started

        writer = rows.writeStream.format("penstock").queryName(f"{self.name}.{query}").outputMode(mode)
        writer = writer.options(**self.source(), topic=topic).option("checkpointLocation", self.checkpoint(query))
        return started(self.spark, writer.trigger(**self.trigger()))

    def split(self, rows: DataFrame, reason: Column) -> tuple[DataFrame, DataFrame]:
        """Good rows, and bad ones with their `reason`: those where `reason` is not null. See `dead_letters`."""
        from penstock.pipelines.split import split

        return split(rows, reason)

    def dead_letters(self, rows: DataFrame, *, query: str = "dead-letters") -> list[StreamingQuery]:
        """Puts records that the job cannot process where the pipeline's `[dead_letters]` says.

        Args:
            rows: the source's columns (key, value, topic, partition, offset, timestamp; headers if read) and `reason`.
            query: of a stream: the name of the query that writes them, one a call.

        Returns the query that was started, for the job to return with its others; none for a batch, which has been
        written, and none when the pipeline declares no place for dead letters: then they are dropped.
        """
        if self.dead_letter_sink is None:
            return []
        return self.dead_letter_sink.write(self, rows, query)

    def stop_queries(self) -> None:
        """Stops every query of the session that is named `PIPELINE.something`, as those of `write` are."""
        for query in self.spark.streams.active:
            if (query.name or "").startswith(f"{self.name}."):
                query.stop()
