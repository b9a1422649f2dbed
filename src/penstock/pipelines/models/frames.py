"""The inputs of models as DataFrames: whole, as streams of what is new, or a range of time.

Each evaluation of a model makes a temporary view of each node that it reads, under the node's name, and runs the query
over them. The views are of a session of the pipeline's own, for pipelines of one run share one.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from penstock.client.client import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED, Client
from penstock.config.nearest import did_you_mean
from penstock.errors import ConfigError
from penstock.pipelines.models.project import VIEW, Model, Project, Source
from penstock.spark.frames.keyed import quoted
from penstock.spark.frames.replace import TimeRange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.pipelines.context import Context

RECORD_TIME = "timestamp"
"""The column of a topic's rows by which brokers find offsets."""
Ends = Mapping[int, tuple[int, int]]
"""The offsets of a topic's partitions that are read, from and until."""


@dataclass(frozen=True, slots=True)
class Whole:
    """All rows there are now; of topics those within `ends`, by source."""

    ends: Mapping[str, Ends] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class New:
    """What is new, of the nodes that are streams; the others whole. `starts` is where topics begin the first time."""

    starts: Mapping[str, Mapping[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Within:
    """The rows of a range of time, of nodes that have an event_time; of topics those within `ends`, by source, of
    tables that are read as streams those of `versions`, by node."""

    start: datetime
    end: datetime
    ends: Mapping[str, Ends] = field(default_factory=dict)
    versions: Mapping[str, int] = field(default_factory=dict)


How = Whole | New | Within


class Frames:
    """Makes DataFrames of a project's nodes.

    Args:
        context: of the pipeline; its session is the parent of ours.
        project: what is declared.

    Raises ConfigError for a session of Spark Connect.
    """

    def __init__(self, context: Context, project: Project) -> None:
        from penstock.spark.session import enter_thread, is_remote, parallelism
        from penstock.spark.starting import LAKE_TABLES, TOPICS, share

        if is_remote(context.spark):
            raise ConfigError("models run in a session of this process: use --master, not --remote")
        self.project = project
        self.session: SparkSession = context.spark.newSession()
        self._context = context
        self._parallelism = str(parallelism(context.spark))
        self._stores = {f"storage.{name}": value for name, value in project.storage_options.items()}
        enter_thread(self.session, context.name)
        for source in (TOPICS, LAKE_TABLES):
            share(self.session, source)

    def of(self, name: str, how: How) -> DataFrame:
        """The rows of a node. Raises PenstockError, and what Spark raises for a query that is wrong."""
        node = self.project.node(name)
        if isinstance(node, Source):
            rows = self._source(node, how)
        elif node.materialized == VIEW:
            rows = self.evaluated(node, how)
        else:
            rows = self._table(name, node.table, how, stream=node.appends)
        if isinstance(how, New) and rows.isStreaming and node.late_seconds is not None and node.event_time is not None:
            return rows.withWatermark(node.event_time, f"{node.late_seconds} seconds")
        is_view = isinstance(node, Model) and node.materialized == VIEW  # what it reads is cut already
        if isinstance(how, Within) and node.event_time is not None and not is_view:
            _check_column(rows, node.event_time, f"event_time of {name}")
            return rows.where(TimeRange(node.event_time, how.start, how.end).condition)
        return rows

    def evaluated(self, model: Model, how: How) -> DataFrame:
        """What a model's query or function gives, whether or not it is stored."""
        frames = {ref: self.of(ref, how) for ref in model.refs}
        if model.function is not None:
            return _dataframe(model, model.function(Dbt(model.name, frames), self.session))
        for ref, rows in frames.items():
            rows.createOrReplaceTempView(ref)
        return self.session.sql(model.sql.strip().rstrip(";"))

    def _source(self, source: Source, how: How) -> DataFrame:
        if source.topic is not None:
            return self._topic(source, how)
        assert source.table is not None
        return self._table(source.name, source.table, how, stream=source.stream)

    def _topic(self, source: Source, how: How) -> DataFrame:
        assert source.topic is not None
        options = {**self._context.source(), "subscribe": source.topic, "penstock.parallelism": self._parallelism}
        typed = {
            "penstock.value.format": source.format,
            "penstock.value.schema": source.schema,
            "penstock.schema.registry.url": source.schema_registry,
        }
        options |= {name: value for name, value in typed.items() if value is not None}
        if isinstance(how, New):
            starts = how.starts.get(source.name)
            options["startingOffsets"] = source.starting if starts is None else _offsets(source.topic, starts)
            return self.session.readStream.format("penstock").options(**options).load()
        if found := how.ends.get(source.name):
            options["startingOffsets"] = _offsets(source.topic, {each: ends[0] for each, ends in found.items()})
            options["endingOffsets"] = _offsets(source.topic, {each: ends[1] for each, ends in found.items()})
        return self.session.read.format("penstock").options(**options).load()

    def _table(self, name: str, path: str, how: How, *, stream: bool) -> DataFrame:
        options = {**self._stores, "penstock.parallelism": self._parallelism}
        if isinstance(how, New) and stream:
            return (
                self.session.readStream.format("penstock-lake")
                .options(**options)
                .option("skipChangeCommits", "true")
                .load(path)
            )
        if isinstance(how, Within) and name in how.versions:
            options["versionAsOf"] = str(how.versions[name])
        return self.session.read.format("penstock-lake").options(**options).load(path)


class Dbt:
    """What a Python model gets as its first argument: `dbt.ref(name)` and `dbt.source(name)` give DataFrames."""

    def __init__(self, model: str, frames: Mapping[str, DataFrame]) -> None:
        self._model = model
        self._frames = frames

    def ref(self, name: str) -> DataFrame:
        """The rows of a model or a source. Raises ConfigError for a name that the function does not write out."""
        if name not in self._frames:
            raise ConfigError(f"model {self._model} reads {name}, which its function does not name in quotes")
        return self._frames[name]

    source = ref


def _dataframe(model: Model, found: Any) -> DataFrame:
    if not hasattr(found, "isStreaming"):
        raise ConfigError(f"{model.code} must return a DataFrame, it returned {type(found).__name__}")
    rows: DataFrame = found
    return rows


def _check_column(rows: DataFrame, column: str, what: str) -> None:
    if column not in rows.columns:
        raise ConfigError(f"{what}: there is no column {column}{did_you_mean(column, rows.columns)}")
    kind = dict(rows.dtypes)[column]
    if kind not in ("timestamp", "timestamp_ntz", "date"):
        raise ConfigError(f"{what}: column {quoted(column)} is {kind}, it must be a timestamp")


def _offsets(topic: str, partitions: Mapping[int, int]) -> str:
    return json.dumps({topic: {str(each): offset for each, offset in sorted(partitions.items())}})


def ends_now(context: Context, sources: Iterable[Source], since: datetime | None = None) -> dict[str, Ends]:
    """Where the topics of sources begin and end, all at one moment.

    Args:
        context: says where the brokers are.
        sources: those that are no topics are left out.
        since: begin at the first record of this time or later, instead.

    Raises PenstockError.
    """
    topics = {each.name: each.topic for each in sources if each.topic is not None}
    start = EARLIEST if since is None else int(since.timestamp() * 1000)
    return asyncio.run(_ends(context, topics, start)) if topics else {}


async def _ends(context: Context, topics: Mapping[str, str], start: int) -> dict[str, Ends]:
    committed = context.kafka.get("kafka.isolation.level") == "read_committed"
    isolation = READ_COMMITTED if committed else READ_UNCOMMITTED
    async with Client(context.bootstrap, client_id="penstock-pipeline", security=context.security) as client:
        partitions = []
        for topic in dict.fromkeys(topics.values()):
            partitions += [(topic, each) for each in range(len((await client.topic(topic)).leaders))]
        last = await client.offsets(partitions, LATEST, isolation=isolation)
        first = await client.offsets(partitions, start)
    ends = {each: last[each].offset for each in partitions}
    starts = {each: first[each].offset if first[each].offset >= 0 else ends[each] for each in partitions}
    return {
        name: {each: (min(starts[of, each], ends[of, each]), ends[of, each]) for of, each in partitions if of == topic}
        for name, topic in topics.items()
    }
