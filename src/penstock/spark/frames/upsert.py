"""Rows that take the place of those with the same key in a lake table, each batch once.

For `foreachBatch`, and for a DataFrame of a batch job. A sink of Spark's Python API cannot do this: its tasks get rows
as they come, not by key, and its commit cannot start tasks. So a batch runs as jobs of its own session:

1. Which files may hold its keys, by the statistics that the table keeps; of a large table the tasks then look into the
   columns of the key there, and tell the names of the files that do hold one.
2. The rows of these files and those of the batch meet by key in a shuffle; of each key the latest is kept (see
   `keyed`). Tasks write what is kept into new files and tell their names.
3. One commit takes the old files away, adds the new ones, and sets the number of the query's newest batch (see
   `lake.batches`).

So the driver has names, statistics and the ends of the batch's keys, never rows. A commit that conflicts with another
writer's is planned again from the table as it is then. A batch that the table has is run, for the state that a stream
keeps of it, but writes nothing.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.errors import ConfigError, PenstockError
from penstock.spark.frames.columns import as_table, nullable
from penstock.spark.frames.keyed import Keyed, ends_of, is_ordered, keyed, loose, may_hold, quoted, total_bytes
from penstock.spark.frames.options import FrameOptions, parse, query_of
from penstock.spark.frames.sink import (
    Target,
    Written,
    check_goes_on,
    check_key,
    check_still_fits,
    discard,
    gathered,
    opened,
    target_of,
)
from penstock.spark.lake.batches import QueryBatch
from penstock.spark.lake.kept import unrecorded
from penstock.spark.lake.records import DataFile, LakeConflictError
from penstock.spark.lake.rows import rows_of
from penstock.spark.lake.table import LakeTable, TableFile, reading
from penstock.spark.limits import UPSERT_TRIES, UPSERT_WHOLE_BYTES
from penstock.spark.session import is_remote, parallelism

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

logger = logging.getLogger(__name__)
NEW, DELETES, PLACE, RIVALS, PATH = (f"__penstock_{name}" for name in ("new", "deletes", "place", "rivals", "path"))
"""Columns beside the table's own while rows are matched."""
QUERY_PROPERTY = "sql.streaming.queryId"
"""Where Spark keeps the id of the query whose batch the present thread runs."""


def upserts(path: str, **options: str) -> Callable[[DataFrame, int], None]:
    """What `foreachBatch` calls with each batch of a query, to upsert its rows into the table at `path`.

    Args:
        path: the table: a path, or a URI of a store.
        options: as `format("penstock-lake")` has them, `upsertBy` among them. On Spark Connect also
            `checkpointLocation`: else the query is the one that runs.

    Raises:
        ConfigError: at once for wrong options; with the first batch for columns that do not fit them.
        UnfitError, PenstockError: with a batch; see `upsert`.
    """
    told = _parsed(path, options, stream=True)

    def write(rows: DataFrame, number: int) -> None:
        apply(rows, told, _batch_of(rows, told, number), stream=True)

    return write


def upsert(rows: DataFrame, path: str, **options: str) -> bool:
    """Upserts the rows of a DataFrame into the table at `path`; returns whether anything was written.

    Args:
        rows: read as often as the table changes meanwhile, and more than once for a large table: they are persisted
            then, unless they are already.
        path: the table: a path, or a URI of a store; made if it is missing.
        options: as `format("penstock-lake")` has them, `upsertBy` among them.

    Raises:
        ConfigError: wrong options, or columns that do not fit them.
        UnfitError: the rows do not fit the table.
        LakeConflictError: others committed in between every time.
        PenstockError: the table cannot be read or written, or knows the query otherwise.
    """
    told = _parsed(path, options)
    return apply(rows, told, told.batch)


def _parsed(path: str, options: Mapping[str, str], *, stream: bool = False) -> FrameOptions:
    told = parse({"path": path, **options}, stream=stream)
    if not told.upsert_by:
        raise ConfigError("option upsertBy is missing: the columns of the key, separated by commas")
    return told


def _batch_of(rows: DataFrame, options: FrameOptions, number: int) -> QueryBatch:
    """Which batch of which query a function of `foreachBatch` is called with."""
    if options.checkpoint is not None:
        return QueryBatch(query_of(options), number, options.name)
    spark = rows.sparkSession
    if is_remote(spark):
        raise ConfigError("option checkpointLocation is missing: Spark Connect does not tell whose batch it is")
    query = spark.sparkContext.getLocalProperty(QUERY_PROPERTY)
    if not query:
        raise ConfigError("this is no batch of a query: call upsert(rows, path, ...)")
    names = [each.name for each in spark.streams.active if each.id == query]
    return QueryBatch(query, number, options.name or (names[0] if names else None))


def apply(rows: DataFrame, options: FrameOptions, batch: QueryBatch, *, stream: bool = False) -> bool:
    """Upserts one batch, planned anew for as long as other writers get in the way."""
    how = keyed(rows.schema, options)
    with _kept(rows) as keep:
        for tried in range(UPSERT_TRIES):
            lake = _table(options, how)
            if stream:
                check_goes_on(lake, batch)
            if lake.has(batch):
                logger.info("the table at %s has batch %d of %s already", lake.uri, batch.number, batch.query)
                if stream:  # an aggregation's state takes the batch by being run
                    rows.write.format("noop").mode("append").save()
                return False
            try:
                return _once(rows, lake, how, batch, keep)
            except LakeConflictError as error:
                logger.info("planned again: %s", error)
                if tried == UPSERT_TRIES - 1:
                    raise
    raise AssertionError("the last try returns or raises")


@contextmanager
def _kept(rows: DataFrame) -> Iterator[Callable[[], None]]:
    """Gives what to call before rows are read more than once: Spark would compute them, and a stream's state, anew."""
    persisted = False

    def keep() -> None:
        nonlocal persisted
        if not persisted and not (rows.storageLevel.useMemory or rows.storageLevel.useDisk):
            rows.persist()
            persisted = True

    try:
        yield keep
    finally:
        if persisted:
            rows.unpersist()


def _table(options: FrameOptions, how: Keyed) -> LakeTable:
    lake = opened(options, how.rows)
    lake.check_takes_upserts()
    return lake


def _once(rows: DataFrame, lake: LakeTable, how: Keyed, batch: QueryBatch, keep: Callable[[], None]) -> bool:
    """Plans, writes and commits a batch. Raises LakeConflictError if the table changed under it."""
    target = target_of(lake, how.rows)
    with reading(lake):
        planned = lake.files()
    replaced = _held(rows, lake, how, planned, keep)
    reports = _written(rows, lake, how, replaced, target)
    written = [Written(each.files, target.identity) for each in reports]
    files = [file for each in reports for file in each.files]
    if not sum(each.changes for each in reports):
        discard(target.destination, written)
        return False
    try:
        with reading(lake):
            lake.refresh()
            now = lake.files()
        check_still_fits(lake, how.rows, written)
        check_key(lake, how.key)
        if lake.has(batch) or not _same(planned, replaced, now):
            raise LakeConflictError(f"others changed the table at {lake.uri} while the batch was written")
    except PenstockError:
        discard(target.destination, written)
        raise

    def check() -> None:
        check_still_fits(lake, how.rows, written)
        check_key(lake, how.key)

    with reading(lake):
        return lake.replace(files, replaced, unrecorded(lake, batch), how.key, check)


def _same(planned: Sequence[TableFile], replaced: Sequence[TableFile], now: Sequence[TableFile]) -> bool:
    """Whether no file came that a plan has not seen, and none went that it replaces."""
    there = {file.path for file in now}
    return there <= {file.path for file in planned} and {file.path for file in replaced} <= there


def _held(
    rows: DataFrame, lake: LakeTable, how: Keyed, files: Sequence[TableFile], keep: Callable[[], None]
) -> list[TableFile]:
    """The files that are rewritten: those that hold one of the rows' keys, and small ones where there are many."""
    if total_bytes(files) <= UPSERT_WHOLE_BYTES:
        return list(files)
    keep()
    spans = _spans(rows, how)
    with reading(lake):
        found = may_hold(files, lake.spans(how.key), spans)
    if total_bytes(found) > UPSERT_WHOLE_BYTES:
        found = _holding(rows, lake, how, found)
    paths = {file.path for file in [*found, *loose(files)]}
    return [file for file in files if file.path in paths]


def _spans(rows: DataFrame, how: Keyed) -> dict[str, Any]:
    """The least and the greatest of the columns of the key, of those types that have them."""
    from pyspark.sql import functions as f

    ends = ends_of(rows.schema, how.key)
    if not ends:
        return {}
    least = [f.min(column) for column in ends.values()]
    (row,) = rows.agg(*least, *(f.max(column) for column in ends.values())).collect()
    spans = {name: (row[at], row[at + len(ends)]) for at, name in enumerate(ends)}
    return {name: span for name, span in spans.items() if span[0] is not None}


def _holding(rows: DataFrame, lake: LakeTable, how: Keyed, files: Sequence[TableFile]) -> list[TableFile]:
    """The files, of some, that hold a key of the rows."""
    old = rows_of(rows.sparkSession, lake, how.key, parallelism(rows.sparkSession), files=files, path_column=PATH)
    keys = rows.select(*(_cast(rows, lake, name) for name in how.key))
    told = old.join(keys, list(how.key), "left_semi").select(PATH).distinct().collect()
    paths = {row[0] for row in told}
    return [file for file in files if file.path in paths]


def _cast(rows: DataFrame, lake: LakeTable, name: str) -> Column:
    """A column of the table, from rows that may have it narrower or not at all."""
    from pyspark.sql import functions as f

    kind = from_arrow_schema(pa.schema([lake.columns.field(name)]))[name].dataType
    return (f.col(quoted(name)) if name in rows.columns else f.lit(None)).cast(kind).alias(name)


@dataclass(frozen=True, slots=True)
class Report:
    """A task's report: its files, and how many of the rows that it was given were new or deleted one."""

    files: tuple[DataFile, ...]
    changes: int


def _written(
    rows: DataFrame, lake: LakeTable, how: Keyed, replaced: Sequence[TableFile], target: Target
) -> list[Report]:
    """Has tasks write the latest rows of some files and of the batch."""
    both = _latest(_marked(rows, lake, how), how)
    if replaced:
        spark = rows.sparkSession
        names = [name for name in both.columns if name not in (NEW, DELETES)]
        old = rows_of(spark, lake, names, parallelism(spark), files=replaced)
        both = _latest(_marked(rows, lake, how).unionByName(_unmarked(old)), how)
    told = both.mapInArrow(Merged(target), "report string").collect()
    return [_report(row[0]) for row in told]


def _report(text: str) -> Report:
    told = json.loads(text)
    return Report(tuple(DataFile(**each) for each in told["files"]), told["changes"])


def _marked(rows: DataFrame, lake: LakeTable, how: Keyed) -> DataFrame:
    """The batch's rows as the table's columns, and whether they delete. A null in the key ends the job."""
    from pyspark.sql import functions as f

    deletes: Column = f.lit(False)
    if how.delete_when is not None:
        column = f.col(quoted(how.delete_when))
        deletes = f.coalesce(column, f.lit(False)) if how.is_flag else column.isNull()
    derived = set(lake.partition_by) - set(rows.columns)  # `date` is made where files are written
    columns = [_cast(rows, lake, name) for name in lake.columns.names if name not in derived]
    marked = rows.select(*columns, f.lit(1).alias(NEW), deletes.alias(DELETES))
    for name in how.key:
        error = f.raise_error(f.lit(f"column {name} of the key is null in a row: leave such rows out"))
        value = f.col(quoted(name))
        in_path = name in lake.partition_by and lake.format == "delta"
        if in_path and pa.types.is_string(lake.columns.field(name).type):
            value = f.nullif(value, f.lit(""))  # to Delta an empty partition value is null
        marked = marked.withColumn(name, f.coalesce(value, error))
    return marked


def _unmarked(old: DataFrame) -> DataFrame:
    """The table's rows, marked as such."""
    from pyspark.sql import functions as f

    return old.select("*", f.lit(0).alias(NEW), f.lit(False).alias(DELETES))


def _latest(rows: DataFrame, how: Keyed) -> DataFrame:
    """Of each key that the batch has the latest row; the others as they are, be they double or without a key."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    order = [f.col(quoted(name)).desc_nulls_last() for name in (how.latest_by, NEW, DELETES) if name is not None]
    others = [each.name for each in rows.schema.fields if is_ordered(each.dataType)]
    order += [f.col(quoted(name)).desc_nulls_last() for name in others if name not in (*how.key, NEW, DELETES)]
    one = Window.partitionBy(*(f.col(quoted(name)) for name in how.key)).orderBy(*order)
    every = one.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    placed = rows.withColumn(PLACE, f.row_number().over(one)).withColumn(RIVALS, f.max(NEW).over(every))
    return placed.where(f"{PLACE} = 1 or {RIVALS} = 0").drop(PLACE, RIVALS)


class Merged:
    """What a task does with the rows that were kept: writes them, but for those that delete; its result is a report."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from penstock.spark.load.files import Files

        columns = self._target.columns
        files = Files(
            self._target.destination, pa.schema([pa.field(each.name, nullable(each.type)) for each in columns])
        )
        changes = 0
        try:
            for some in gathered(batches):
                changes += some.column(NEW).to_numpy().sum()
                rows = some.filter(pc.invert(some.column(DELETES)))
                if rows.num_rows:
                    files.write(as_table(rows, columns))
            report = {"files": [asdict(file) for file in files.close()], "changes": int(changes)}
        except BaseException:
            files.abort()
            raise
        yield pa.RecordBatch.from_pydict({"report": [json.dumps(report)]})
