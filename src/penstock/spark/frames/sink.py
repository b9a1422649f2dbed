"""`df.write` and `df.writeStream` into a lake table, each batch once.

Tasks write the data files themselves, as a load's do, and tell the driver what they are called. The driver adds them
in one commit that also sets the number of the query's newest batch (see `lake.batches`); a batch that the table has
is not added again, and its new files are deleted.

Who deletes: a task that fails deletes its own files. Those of the others are deleted when Spark gives a batch up, but
only if a task's report is missing; once all have reported, a commit may have been asked for, and a store may yet apply
it. What remains, the table does not name: nobody sees it, and `penstock lake maintain` deletes it when it is old.

Spark makes a writer anew for the plan of each batch and for its commit, each in a process of its own. So a task's
report says for which table the files are: one that was dropped and made again meanwhile does not get them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from penstock.errors import ConfigError, PenstockError
from penstock.spark.frames.columns import (
    UnfitError,
    as_table,
    check_fits,
    check_partitioning,
    columns_of,
    lacking,
    nullable,
    with_derived,
)
from penstock.spark.frames.options import FrameOptions, parse, query_of
from penstock.spark.frames.positions import read_by
from penstock.spark.lake.batches import KEY_APPLICATION, QueryBatch, key_mark
from penstock.spark.lake.destination import Destination
from penstock.spark.lake.kept import (
    GIVEN_UP,
    Counts,
    Kept,
    Records,
    added,
    counts_of,
    known_partitions,
    recorded,
    tells_offsets,
    unrecorded,
)
from penstock.spark.lake.open import open_table
from penstock.spark.lake.records import DataFile
from penstock.spark.lake.table import LakeTable, reading
from penstock.spark.limits import LAKE_ROW_GROUP_BYTES, LAKE_ROW_GROUP_ROWS

logger = logging.getLogger(__name__)
PIPELINE = "penstock-lake"
"""Opens tables; it has no offsets in them."""


@dataclass(frozen=True, slots=True)
class Written(WriterCommitMessage):
    """A task's report to the driver: its files, and for which table they are."""

    files: Sequence[DataFile]
    identity: str
    counts: Counts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Target:
    """A table as its tasks need it. `rows` are the DataFrame's columns, `columns` all of the table's."""

    destination: Destination
    columns: pa.Schema
    rows: pa.Schema
    identity: str

    def write(self, batches: Iterable[pa.RecordBatch]) -> Written:
        """Writes the rows of one task into files. Raises UnfitError; then there are none."""
        from penstock.spark.load.files import Files

        kept = pa.schema([pa.field(each.name, nullable(each.type)) for each in self.columns])
        files = Files(self.destination, kept)
        counts: list[Counts] = []
        try:
            for some in gathered(batches):
                rows = as_table(some, self.columns)
                files.write(rows)
                if tells_offsets(rows.schema):
                    counts.append(counts_of(rows))
            return Written(tuple(files.close()), self.identity, added(counts))
        except BaseException:
            files.abort()
            raise


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Spark's batches joined to about a row group each; empty ones are left out."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
        rows, size = sum(each.num_rows for each in waiting), sum(each.nbytes for each in waiting)
        if rows >= LAKE_ROW_GROUP_ROWS or size >= LAKE_ROW_GROUP_BYTES:
            yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()
            waiting = []
    if waiting:
        yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()


def opened(options: FrameOptions, rows: pa.Schema) -> LakeTable:
    """The table, made if it is missing, widened if that is asked for. Raises ConfigError, PenstockError, UnfitError."""
    lake = open_table(
        options.path,
        PIPELINE,
        format=options.table_format,
        columns=with_derived(rows, options.partition_by),
        partition_by=options.partition_by,
        records=False,
        storage_options=options.storage_options,
    )
    with reading(lake):
        lake.check_takes_files()
        check_partitioning(lake.columns, lake.partition_by)
        if options.partition_by and options.partition_by != tuple(lake.partition_by):
            there = ", ".join(lake.partition_by) or "nothing"
            raise UnfitError(f"the table at {lake.uri} is partitioned by {there}: leave the option partitionBy out")
        if loads := lake.pipelines():
            raise UnfitError(
                f"the table at {lake.uri} is that of load {loads[0]!r}, and `penstock verify` would find rows in it "
                "that no load brought: write to a table of its own"
            )
        check_key(lake, options.upsert_by)
        if options.merge_schema and (new := lacking(rows, lake.columns)):
            check_names(new, lake)
            lake.add_columns(new)
        check_fits(rows, lake.columns, lake.partition_by)
    return lake


def check_key(lake: LakeTable, key: Sequence[str]) -> None:
    """Raises UnfitError for a table whose rows have another key, or have one and are to be added without."""
    for name in key:
        if name not in lake.columns.names:
            raise UnfitError(f"the table at {lake.uri} has no column {name}, so it cannot be the key")
    known = lake.number(KEY_APPLICATION)
    if known is not None and not key:
        raise UnfitError(f"the rows of the table at {lake.uri} have a key, and others would double it: upsert them")
    if known not in (None, key_mark(key)):
        raise UnfitError(f"the rows of the table at {lake.uri} have another key than {', '.join(key)}")


def check_names(new: Iterable[pa.Field], lake: LakeTable) -> None:
    """Raises UnfitError for a new column whose name is one of the table's to Spark, which tells no case apart."""
    there = {name.lower(): name for name in lake.columns.names}
    for each in new:
        if name := there.get(each.name.lower()):
            raise UnfitError(f"column {each.name} differs from the table's {name} by case only: rename it")


def check_still_fits(lake: LakeTable, rows: pa.Schema, written: Iterable[Written]) -> None:
    """Raises UnfitError if files that tasks wrote do not fit the table as it is by now."""
    lake.check_takes_files()
    by = tuple(lake.partition_by)
    for each in written:
        if each.identity != lake.identity:
            raise UnfitError(f"the table at {lake.uri} was dropped and made again while the batch was written")
        if any(tuple(file.partition_values) != by for file in each.files):
            raise UnfitError(f"the table at {lake.uri} was partitioned otherwise while the batch was written")
    check_fits(rows, lake.columns, by)


def check_goes_on(lake: LakeTable, batch: QueryBatch) -> None:
    """Raises PenstockError for a batch of a stream that is older than the last, which alone Spark runs again."""
    newest = lake.number(batch.key)
    if newest is not None and batch.number < newest:
        raise PenstockError(
            f"the table has batch {newest} of this query, and the checkpoint goes on with batch {batch.number}: it is "
            "an older copy, and its batches may have other rows\n"
            "  restore the newer one, or begin with a new checkpoint and a new name where this one ended"
        )


def target_of(lake: LakeTable, rows: pa.Schema) -> Target:
    """What tasks need to write rows for a table."""
    return Target(lake.destination(), lake.columns, rows, lake.identity)


def commit(
    lake: LakeTable,
    target: Target,
    messages: Iterable[WriterCommitMessage | None],
    batch: QueryBatch,
    read: Sequence[Kept] = (),
) -> bool:
    """Adds the files of a batch to the table, unless it has the batch; returns whether it did.

    `read` says from where to where the query has read, if that is to be recorded with what it has kept.

    Raises UnfitError if the table was changed so that the files do not fit it, PenstockError if the batch is not the
    query's (see `lake.batches`), LakeConflictError if other writers were quicker every time.
    """
    written = [each for each in messages if isinstance(each, Written)]
    files = [file for each in written for file in each.files]
    if not files:
        return False
    try:
        check_still_fits(lake, target.rows, written)
        if not lake.has(batch):
            counts = added(each.counts for each in written)
            told = bool(read) and tells_offsets(target.rows)
            batch = recorded(lake, batch, read, counts) if told else unrecorded(lake, batch)
    except PenstockError:
        discard(target.destination, written)
        raise
    with reading(lake):
        done = lake.append(files, batch, lambda: check_still_fits(lake, target.rows, written))
    if done and batch.record not in (None, GIVEN_UP):
        with suppress(OSError):  # they are small, and nobody needs them
            Records(target.destination).drop_others(str(batch.query), int(batch.record or 0))
    if not done:
        logger.info("the table at %s has batch %d of %s already", lake.uri, batch.number, batch.query)
        discard(target.destination, written)
    return done


def abort(destination: Destination, messages: Iterable[WriterCommitMessage | None]) -> None:
    """Spark gives a batch up: deletes its files, if no commit can have been asked for."""
    reports = list(messages)
    if None in reports:
        discard(destination, [each for each in reports if isinstance(each, Written)])


def discard(destination: Destination, written: Iterable[Written]) -> None:
    """Deletes files that no commit was to name."""
    for each in written:
        for file in each.files:
            destination.discard(file.path)


def refuse_upsert(options: FrameOptions) -> None:
    """Raises ConfigError for rows with a key: no sink's task gets all rows of one."""
    if options.upsert_by:
        raise ConfigError(
            "Spark hands a sink its rows as they come, not by key\n"
            "  use penstock.spark.frames.upsert: .foreachBatch(upserts(PATH, upsertBy=...)), or upsert(rows, PATH, ...)"
        )


class BatchWriter(DataSourceArrowWriter):
    """One `df.write`. Raises ConfigError, UnfitError or PenstockError before anything is written."""

    def __init__(self, schema: StructType, options: Mapping[str, str], overwrite: bool) -> None:
        if overwrite:
            raise ConfigError("a lake table is not overwritten, rows are only added to it: use mode append")
        self._options = parse(options)
        refuse_upsert(self._options)
        rows = columns_of(schema)
        self._target = target_of(opened(self._options, rows), rows)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return self._target.write(iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        commit(opened(self._options, self._target.rows), self._target, messages, self._options.batch)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        abort(self._target.destination, messages)


class StreamWriter(DataSourceStreamArrowWriter):
    """One `df.writeStream`. Output modes append and update: whatever rows a batch has are added to the table."""

    def __init__(self, schema: StructType, options: Mapping[str, str], overwrite: bool) -> None:
        if overwrite:
            raise ConfigError("a lake table is not overwritten, rows are only added to it: use output mode append")
        self._options = parse(options, stream=True)
        refuse_upsert(self._options)
        self._query = query_of(self._options)
        rows = columns_of(schema)
        self._lake: LakeTable | None = opened(self._options, rows)
        self._target = target_of(self._lake, rows)

    def __getstate__(self) -> dict[str, Any]:
        """What tasks get: not the table itself."""
        return {**self.__dict__, "_lake": None}

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return self._target.write(iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        batch = QueryBatch(self._query, batchId, self._options.name)
        assert self._lake is not None, "Spark makes a writer for the commit"
        try:
            check_goes_on(self._lake, batch)
            read = read_by(self._options, batchId, known_partitions(self._lake, self._query))
        except PenstockError:
            discard(self._target.destination, [each for each in messages if isinstance(each, Written)])
            raise
        commit(self._lake, self._target, messages, batch, read)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        abort(self._target.destination, messages)
