"""Makes a range of time of an incremental model anew, beside the live run; twice gives the same table.

Hour by hour (`batch_size`), and each of them in turns with the runs of the pipeline (see `turns`):

1. The model is run, so that it has read all there is. Its checkpoint says up to where.
2. Its query is run over the rows of the range alone, up to there. So a row is in the table by the run or by the
   backfill, never by both.
3. The rows of the range are replaced in one commit, or those of their keys.

What is killed in between has whole hours of the one or of the other, and can be begun again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from penstock.config.nearest import did_you_mean
from penstock.errors import ConfigError
from penstock.pipelines.models.frames import RECORD_TIME, Ends, Within, ends_now
from penstock.pipelines.models.position import has_state, reached
from penstock.pipelines.models.project import BATCH_SECONDS, INCREMENTAL, Model, Project, Source
from penstock.pipelines.models.step import ModelsStep
from penstock.pipelines.turns import turn
from penstock.spark.frames.replace import TimeRange
from penstock.spark.load.load import Stop

DAY = "day"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def backfilled(project: Project, name: str, start: datetime, end: datetime) -> Model:
    """The model of a backfill. Raises ConfigError for one that has none, and for a range that it cannot have."""
    if name not in project.models:
        raise ConfigError(f"there is no model {name}{did_you_mean(name, project.models)}")
    model = project.models[name]
    if model.materialized != INCREMENTAL:
        raise ConfigError(f"model {name} is a {model.materialized}: each run makes it anew, it needs no backfill")
    if model.event_time is None:
        raise ConfigError(f"model {name} has no event_time: it says which of its rows are of the range")
    if start >= end:
        raise ConfigError("--from must be before --to")
    size = timedelta(seconds=BATCH_SECONDS[model.batch_size])
    for option, moment in (("--from", start), ("--to", end)):
        if (moment - EPOCH) % size:
            raise ConfigError(
                f"{option} {moment.isoformat()} is within a batch: model {name} has one a {model.batch_size}"
            )
    return model


def parts(model: Model, start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """The batches of a range, in order."""
    size = timedelta(seconds=BATCH_SECONDS[model.batch_size])
    while start < end:
        yield start, start + size
        start += size


@dataclass(frozen=True, slots=True)
class Backfill:
    """A backfill of one model.

    Attributes:
        live: runs and knows the project.
        model: see `backfilled`.
        stop: ends it after the batch that it is at.
        said: gets a line for each batch.
    """

    live: ModelsStep
    model: Model
    stop: Stop
    said: Callable[[str], None]

    def run(self, start: datetime, end: datetime) -> bool:
        """Makes the range anew; whether all of it."""
        for first, last in parts(self.model, start, end):
            with turn(self.live.context.directory, self.stop, lambda: self.said("waits for a run to end")) as mine:
                if not mine or self.stop.is_set():
                    return False
                self.live.materializer.run(self.model, {})
                if self.stop.is_set():
                    return False
                self._check_windows(last)
                self._put(first, last)
            self.said(f"{self.model.name}: {first.isoformat()} to {last.isoformat()} is made anew")
        return True

    def _check_windows(self, end: datetime) -> None:
        """Raises ConfigError for windows that the model has not added yet, and would add after the backfill has."""
        checkpoint, stores = self.live.materializer.checkpoint(self.model), self.live.project.storage_options
        if self.model.unique_key or not has_state(checkpoint, stores):
            return
        over_ms = reached(checkpoint, stores).watermark_ms
        if over_ms and over_ms < end.timestamp() * 1000:
            over = datetime.fromtimestamp(over_ms / 1000, UTC)
            raise ConfigError(
                f"model {self.model.name} adds windows when they are over, and knows that only of those before "
                f"{over.isoformat()}: the rest is not there yet, and needs no backfill"
            )

    def _put(self, start: datetime, end: datetime) -> None:
        from penstock.spark.frames.replace import replace
        from penstock.spark.frames.upsert import upsert

        model, materializer = self.model, self.live.materializer
        assert model.event_time is not None
        how = Within(start, end, self._ends(start), self._versions())
        within = TimeRange(model.event_time, start, end)
        rows = materializer.frames.evaluated(model, how)
        if model.event_time not in rows.columns:
            raise ConfigError(f"model {model.name} gives no column {model.event_time}, its event_time")
        if dict(rows.dtypes)[model.event_time] == "date" and model.batch_size != DAY:
            raise ConfigError(f'model {model.name}: {model.event_time} is a date, so batch_size must be "{DAY}"')
        options = materializer.options(model)
        if model.unique_key:
            upsert(rows.where(within.condition), model.table, **options)
        else:
            replace(rows, model.table, within=within, **options)

    def _ends(self, start: datetime) -> dict[str, Ends]:
        """The offsets that the model has read of its topics; where records are found by their time, from `start` on."""
        context = self.live.context
        topics = self.live.project.topics(self.model)
        timed = [each for each in topics if each.event_time == RECORD_TIME]
        others = [each for each in topics if each.event_time != RECORD_TIME]
        there = {**ends_now(context, others), **ends_now(context, timed, start)}
        read = self.live.materializer.positions.read(self.model.name)
        found: dict[str, Ends] = {}
        for source, ends in there.items():
            until = {each: read.get(source, {}).get(each, (0, first))[1] for each, (first, _) in ends.items()}
            found[source] = {each: (min(first, until[each]), until[each]) for each, (first, _) in ends.items()}
        return found

    def _versions(self) -> dict[str, int]:
        """The versions that the model has read of tables that are streams to it, by node."""
        from penstock.spark.lake.open import open_table

        project = self.live.project
        stores = project.storage_options
        tables = reached(self.live.materializer.checkpoint(self.model), stores).tables
        found = {}
        for node in project.inputs(self.model):
            path = node.table
            if path is None or not (node.stream if isinstance(node, Source) else node.appends):
                continue
            lake = open_table(path, "penstock-lake", format="auto", create=False, records=False, storage_options=stores)
            if lake.identity in tables:
                found[node.name] = max(0, tables[lake.identity] - 1)
        return found
