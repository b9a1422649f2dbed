"""Stores what models give: nothing of a view, a table anew, of an incremental model what is new.

An incremental model is a streaming query that is started anew for each run and ends when it has read all there is. So
Spark's checkpoint says what is new, each batch is in the table once, and windows that are not over are kept from one
run to the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.errors import ConfigError
from penstock.pipelines.limits import PIPELINE_POLL_MS
from penstock.pipelines.models.frames import Ends, Frames, New, Whole, ends_now
from penstock.pipelines.models.position import Positions, has_begun, reached
from penstock.pipelines.models.project import TABLE, VIEW, Model
from penstock.pipelines.queries import QueryError, rows_of
from penstock.spark.session import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.pipelines.context import Context


@dataclass(frozen=True, slots=True)
class Materializer:
    """Runs single models of a project."""

    context: Context
    frames: Frames
    positions: Positions

    def run(self, model: Model, ends: Mapping[str, Ends]) -> int:
        """Runs a model once; returns how many rows it read, or of a table has.

        Args:
            model: those that it reads must have run.
            ends: by source the offsets of topics as this run sees them, for what is read whole.

        Raises QueryError, PenstockError and what Spark raises.
        """
        if model.materialized == VIEW:
            self.frames.evaluated(model, Whole(ends))  # whether it can be read at all
            return 0
        if model.materialized == TABLE:
            return self._replace(model, ends)
        return self._add(model)

    def options(self, model: Model) -> dict[str, str]:
        """Of writing a model's table."""
        options = {f"storage.{name}": value for name, value in self.frames.project.storage_options.items()}
        options["mergeSchema"] = "true"
        if model.partition_by:
            options["partitionBy"] = ",".join(model.partition_by)
        if model.unique_key:
            options["upsertBy"] = ",".join(model.unique_key)
        if model.latest_by is not None:
            options["latestBy"] = model.latest_by
        return options

    def checkpoint(self, model: Model) -> str:
        return self.context.checkpoint(model.name)

    def _replace(self, model: Model, ends: Mapping[str, Ends]) -> int:
        from penstock.spark.frames.replace import replace

        rows = self.frames.evaluated(model, Whole(ends))
        count = replace(rows, model.table, within=None, **self.options(model))
        read = {source.name: ends[source.name] for source in self.frames.project.topics(model) if source.name in ends}
        self.positions.write(model.name, read)
        return count

    def _add(self, model: Model) -> int:
        project, checkpoint = self.frames.project, self.checkpoint(model)
        stores = project.storage_options
        if not has_begun(checkpoint, stores):
            self.positions.write(model.name, self._beginning(model))
        known = self.positions.read(model.name)
        starts = {name: {each: start for each, (start, _) in ends.items()} for name, ends in known.items()}
        rows = self.frames.evaluated(model, New(starts))
        if not rows.isStreaming:
            raise ConfigError(f"model {model.name} is incremental, and what it gives is no stream")
        self._make_table(model, rows)
        count = self._finish(self._started(model, rows, checkpoint))
        if has_begun(checkpoint, stores):
            self.positions.write(model.name, reached(checkpoint, stores).ends(project, model, known))
        return count

    def _beginning(self, model: Model) -> dict[str, Ends]:
        """Where a first run begins in its topics, with nothing read yet."""
        topics = self.frames.project.topics(model)
        now = ends_now(self.context, topics)
        at = {source.name: 1 if source.starting == "latest" else 0 for source in topics}
        return {name: {each: (of[at[name]],) * 2 for each, of in ends.items()} for name, ends in now.items()}

    def _make_table(self, model: Model, rows: DataFrame) -> None:
        """Makes the table before there is a row, for those that read it."""
        from penstock.spark.frames.columns import columns_of
        from penstock.spark.frames.options import parse
        from penstock.spark.frames.sink import opened

        opened(parse({**self.options(model), "path": model.table}), columns_of(rows.schema))

    def _started(self, model: Model, rows: DataFrame, checkpoint: str) -> StreamingQuery:
        from penstock.spark.frames.upsert import upserts

        options = self.options(model)
        writer = rows.writeStream.queryName(f"{self.context.name}.{model.name}").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", checkpoint)
        if model.unique_key:
            return writer.outputMode("update").foreachBatch(upserts(model.table, **options)).start()
        return writer.outputMode("append").format("penstock-lake").options(**options).start(model.table)

    def _finish(self, query: StreamingQuery) -> int:
        """Waits for a query's end; returns how many rows it read."""
        while query.isActive:
            if self.context.stop.is_set():
                query.stop()  # in the middle of a batch, which it begins again next time
                break
            query.awaitTermination(PIPELINE_POLL_MS / 1000)  # type: ignore[arg-type]  # a part of a second is fine
        if error := query.exception():
            raise QueryError(one_line(error))
        return sum(rows_of(progress) for progress in query.recentProgress)
