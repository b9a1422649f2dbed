"""`spark.readStream` of a lake table: the rows that its commits add, each once.

A stream begins with all rows of the table, or at a version, and goes on with the files that each later commit added, in
the order of the commits. A batch is a run of such files. Commits that only move rows, as compaction does, add nothing;
one that takes rows away is an error, unless the options pass it over, for a stream cannot take back what it gave.

Spark keeps one Python process on the driver for a query and calls the reader in it: `latestOffset` for each trigger,
then `partitions` if there is something new. After a restart it may call `partitions` alone, to repeat a batch: the two
positions (see `stream_position`) say which files those are, whatever the table has by then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from penstock.spark.frames.read_options import ReadOptions
from penstock.spark.frames.reader import Task, history_of, reading_of, tasks
from penstock.spark.frames.stream_position import Position, from_json
from penstock.spark.lake.pieces import Reading
from penstock.spark.lake.scan import Change, History, ScanFile, UnreadableError
from penstock.spark.limits import LAKE_STREAM_VERSIONS


@dataclass(frozen=True, slots=True)
class _Planned:
    """The batch that `latestOffset` planned last."""

    start: dict[str, Any]
    end: dict[str, Any]
    files: Sequence[ScanFile]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """See the module's head. Pickled into tasks, where only `read` is called."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self.options = options
        self._history: History = history_of(options)
        self.reading = reading_of(self._history, self._history.columns_at(), schema)
        self._target: int | None = None
        self._planned: _Planned | None = None

    def __getstate__(self) -> Reading:
        return self.reading

    def __setstate__(self, reading: Reading) -> None:
        self.reading = reading

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where the options begin. Raises UnreadableError for a version that there is not."""
        history, start = self._history, self.options.start
        table, newest = history.identity(), history.newest()
        if self.options.start_ms is not None:
            start = self._version_from(self.options.start_ms)
        if isinstance(start, int) and start > newest + 1:
            raise UnreadableError(f"the table at {history.uri} has no version {start}: its newest is {newest}")
        if start is None and newest >= 0:
            return Position(table, newest, snapshot=True, initial=True).to_json()
        if start is None or start == "earliest":
            start = history.oldest()
        version = newest + 1 if start == "latest" else int(start)
        return Position(table, max(0, version), files=history.count(version - 1), initial=True).to_json()

    def _version_from(self, time_ms: int) -> int:
        """The first version of a time or later."""
        try:
            return self._history.version_at(time_ms - 1) + 1
        except UnreadableError:
            return self._history.oldest()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Tells Spark that there are limits; Spark has none of several kinds, so `latestOffset` knows them itself."""
        options = self.options
        return ReadMaxFiles(options.max_files) if options.max_bytes is None else ReadMaxBytes(options.max_bytes)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Fixes what there is now as the end of the query."""
        self._history.refresh()
        self._target = self._history.newest()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where the next batch ends; `start` itself when there is nothing new. Raises UnreadableError."""
        begin = from_json(start)
        self._check_table(begin)
        until = self._history.newest() + 1
        if self._target is not None:
            until = min(until, self._target + 1)
        if not begin.snapshot:
            until = min(until, begin.version + LAKE_STREAM_VERSIONS)
        limited = not isinstance(limit, ReadAllAvailable)
        end, size = begin, 0
        files: list[ScanFile] = []
        for file, position in self._walk(begin, until):
            if file is not None:
                too_large = self.options.max_bytes is not None and size + file.size_bytes > self.options.max_bytes
                if limited and files and (len(files) >= self.options.max_files or too_large):
                    break
                files.append(file)
                size += file.size_bytes
            end = position
        offset = start if end.order <= begin.order else end.after(begin).to_json()
        self._planned = _Planned(start, offset, files)
        return offset

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """The newest version when the last batch was planned, for the query's progress."""
        return Position(self._history.identity(), self._history.newest() + 1).to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of one batch. Raises UnreadableError if its files are no longer known."""
        last = from_json(end)
        if last.initial or start == end:
            return []
        planned = self._planned
        if planned is None or (planned.start, planned.end) != (start, end):
            first = last.begin or from_json(start)
            self._check_table(last)
            planned = _Planned(start, end, self._files_between(first, last))
        return tasks(self.options, planned.files)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task, as Arrow batches."""
        assert isinstance(partition, Task)
        return self.reading.rows(partition.pieces)

    def _files_between(self, first: Position, last: Position) -> list[ScanFile]:
        files = []
        reached = first
        for file, reached in self._walk(first, last.version + (last.index > 0)):
            if reached.order > last.order:
                break
            if file is not None:
                files.append(file)
            if reached.order == last.order:
                return files
        if reached.order < last.order:
            raise UnreadableError(f"the table at {self._history.uri} has no longer what was read of it as {last}")
        return files

    def _walk(self, begin: Position, until: int) -> Iterator[tuple[ScanFile | None, Position]]:
        """The files from a position to before a version, each with the position after it; None for no file."""
        table, version, index = begin.table, begin.version, begin.index
        if begin.snapshot:
            files = self._history.at(version).files
            for done in range(index + 1, len(files)):
                yield files[done - 1], Position(table, version, done, snapshot=True)
            begin = self._next(table, version)
            yield files[-1] if index < len(files) else None, begin
            version, index = begin.version, 0
        if version >= until:
            return
        for change in self._history.changes(version, until, begin.files):
            files, at = self._wanted(change), change.version
            had = begin.files if at == version else self._history.count(at - 1)
            for done in range(index + 1 if at == version else 1, len(files) + 1):
                here = Position(table, at, done, files=had)
                yield files[done - 1], self._next(table, at) if done == len(files) else here
        yield None, self._next(table, until - 1)

    def _next(self, table: str, version: int) -> Position:
        """The position after all of a version."""
        return Position(table, version + 1, files=self._history.count(version))

    def _wanted(self, change: Change) -> Sequence[ScanFile]:
        """What a stream has of a commit. Raises UnreadableError for one that took rows away and is not passed over."""
        if not change.removes:
            return change.files
        if self.options.skip_changes or (self.options.ignore_deletes and change.deletes_only):
            return ()
        option = "ignoreDeletes or skipChangeCommits" if change.deletes_only else "skipChangeCommits"
        what = "deleted rows" if change.deletes_only else "replaced or deleted rows"
        raise UnreadableError(
            f"version {change.version} of the table at {self._history.uri} {what}, and a stream has only what is added"
            f"\n  set {option} to pass such commits over, or begin again with a new checkpoint"
        )

    def _check_table(self, position: Position) -> None:
        """Looks at the table anew. Raises UnreadableError if the position is not one in it."""
        history = self._history
        history.refresh()
        if (table := history.identity()) != position.table:
            raise UnreadableError(
                f"the checkpoint is of table {position.table}, and the one at {history.uri} is {table}: it was dropped "
                "and made again, or is another one\n  begin again with a new checkpoint"
            )
        if position.version > (newest := history.newest()) + 1:
            raise UnreadableError(
                f"the checkpoint is at version {position.version} of the table at {history.uri}, whose newest is "
                f"{newest}: an older copy of it was put back\n  begin again with a new checkpoint"
            )
