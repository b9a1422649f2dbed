"""A lake table that is its own checkpoint, whatever its format.

A commit adds the data files of one bounded job and, atomically with them, moves the end offset of every partition that
the job read. It succeeds only if the table still ends where the job was planned from. So there is no other checkpoint:
a crash anywhere repeats a plan, and two copies of one pipeline cannot both commit. `open.open_table` makes one:
`delta` keeps its progress as that module says, `iceberg` as that one does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

from penstock.errors import PenstockError
from penstock.records.run import SeenEpoch
from penstock.spark.lake import clustering
from penstock.spark.lake.batches import QueryBatch
from penstock.spark.lake.derived import derived_of
from penstock.spark.lake.destination import Destination
from penstock.spark.lake.folding import NO_EPOCHS, Summary
from penstock.spark.lake.records import RECORD_SCHEMA, DataFile, Gap, LakeConflictError, Progress, TopicPartition

Format = Literal["delta", "iceberg"]
FORMATS: tuple[Format, ...] = ("delta", "iceberg")


@dataclass(frozen=True, slots=True)
class TableFile:
    """A data file of the table's current version: its path relative to the table if it lies in it, else its URI."""

    path: str
    size_bytes: int
    partition_values: Mapping[str, str | None] = field(default_factory=dict)


class LakeTable(ABC):
    """One table and the progress of the pipelines that feed it; `pipeline` is the one whose ends it moves."""

    format: Format
    uri: str
    pipeline: str
    storage_options: dict[str, str]

    @property
    @abstractmethod
    def columns(self) -> pa.Schema:
        """The table's columns, partition columns among them."""

    @property
    @abstractmethod
    def partition_by(self) -> tuple[str, ...]:
        """The columns by which its files are apart."""

    @property
    @abstractmethod
    def settings(self) -> Mapping[str, str]:
        """The properties that the table keeps of itself."""

    @property
    def derived(self) -> dict[str, str]:
        """The columns that a load makes, and of what, as `derived.Derived` writes it."""
        return derived_of(self.settings, self.partition_by)

    @property
    def cluster_by(self) -> str:
        """How the rows of its files are sorted, as `clustering.Cluster` writes it; empty for as they came."""
        return self.settings.get(clustering.PROPERTY, "")

    @property
    @abstractmethod
    def version(self) -> int:
        """Grows with each commit: Delta's version, Iceberg's sequence number."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """Tells the table from one that was dropped and made again in its place."""

    @abstractmethod
    def refresh(self) -> None:
        """Sees the commits that others have made since."""

    def end(self, partition: TopicPartition) -> int | None:
        """The next offset to load of a partition by this pipeline, or None if it never loaded any of it."""
        return self.ends().get(partition)

    def ends(self) -> dict[TopicPartition, int]:
        """The next offset to load of every partition that this pipeline has loaded."""
        return self.loaded().ends()

    @abstractmethod
    def loaded(self) -> Summary:
        """The offsets that this pipeline has loaded."""

    @abstractmethod
    def commit(
        self,
        files: Sequence[DataFile],
        starts: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        gaps: Sequence[Gap] = (),
        *,
        exclusive: bool = False,
        epochs: Mapping[TopicPartition, SeenEpoch] = NO_EPOCHS,
    ) -> int:
        """Adds files and moves ends in one atomic commit; returns the table's new version.

        Args:
            files: what the tasks wrote; none is fine when only ends move.
            starts: where the plan began, a partition; the table must still end there.
            ends: the next offset of each partition after this commit.
            gaps: offsets within the ranges that legally carry no record, and before them what diverged.
            exclusive: fail also if an exclusive commit of another pipeline touched one of the partitions since the last
                refresh, so that what was planned from the claims of all pipelines still holds.
            epochs: the newest leader epoch that was seen, of the partitions of which one was.

        Raises:
            LakeConflictError: the table no longer ends where the plan began. Nothing was committed.
        """

    @abstractmethod
    def check_takes_files(self) -> None:
        """Raises PenstockError for a table with rules that files written beside its library could break."""

    @abstractmethod
    def append(self, files: Sequence[DataFile], batch: QueryBatch, check: Callable[[], None]) -> bool:
        """Adds the files of one batch in one atomic commit, unless the table has that batch.

        Args:
            files: what the tasks wrote, at least one.
            batch: which batch of which query they are.
            check: raises an error if the files do not fit the table as it is by now; asked before the first try, and
                again after each commit of somebody else that got in its way.

        Returns False if the table had the batch before; then nobody was asked to commit the files.

        Raises:
            PenstockError: the batch is of a query that the table knows otherwise (see `batches`).
            LakeConflictError: others got in between every time. Nothing was committed.
        """

    @abstractmethod
    def check_takes_upserts(self) -> None:
        """Raises PenstockError for a table whose rows may not be replaced, or cannot be here."""

    @abstractmethod
    def replace(
        self,
        files: Sequence[DataFile],
        replaced: Sequence[TableFile],
        batch: QueryBatch,
        key: Sequence[str],
        check: Callable[[], None],
    ) -> bool:
        """Puts files in the place of others, in one commit that also sets the batch and the key of the table's rows,
        if they have one.

        As `append`, but whatever anybody committed since the last `refresh` is a conflict, and it is not tried again:
        an appended row may be of a key that is put, and a compaction may have moved the rows that are replaced.
        """

    @abstractmethod
    def spans(self, names: Sequence[str]) -> dict[str, dict[str, tuple[Any, Any]]]:
        """By path and column the least and the greatest, of those files and columns of which they are told.

        Both are values as Python has them, or of dates and times days and microseconds since 1970.
        """

    @abstractmethod
    def number(self, key: str) -> int | None:
        """A number that a commit has set by `append`, as of the last refresh."""

    @abstractmethod
    def pipelines(self) -> list[str]:
        """The names of the loads that feed the table."""

    def has(self, batch: QueryBatch) -> bool:
        """Whether the table had a batch at the last refresh. Raises PenstockError as `append` does."""
        return batch.is_in(self.number)

    def names(self, files: Sequence[DataFile | TableFile]) -> bool:
        """Whether the current version names one of some files."""
        wanted = {file.path for file in files}
        return any(file.path in wanted for file in self.files())

    @abstractmethod
    def progress(self) -> dict[TopicPartition, Progress]:
        """What the commits of all pipelines together say of every partition. Reads O(1) entries of the table's log.

        Raises PenstockError when what the table says of itself is damaged or contradicts itself.
        """

    @abstractmethod
    def add_columns(self, fields: Sequence[pa.Field]) -> None:
        """Adds the columns that the table lacks, as nullable; does nothing for those it has.

        Safe beside writers that do the same. Raises PenstockError for a column that is there with another type.
        """

    @abstractmethod
    def files(self) -> list[TableFile]:
        """The data files of the current version, oldest first.

        Raises PenstockError if rows of them are deleted by other means than leaving them out.
        """

    @abstractmethod
    def destination(self) -> Destination:
        """Where tasks write this table's files."""

    def file_systems(self) -> Any:
        """The pyarrow filesystem in which the paths of `files` lie."""
        return self.destination().filesystem()


def check_is_a_loads(uri: str, columns: Sequence[str]) -> None:
    """Raises PenstockError for a table that lacks a column of the record."""
    missing = [name for name in RECORD_SCHEMA.names if name not in columns and name != "value"]
    if missing:
        raise PenstockError(f"the table at {uri} is not a load's: it has no column {', '.join(missing)}")


def check_starts(pipeline: str, known: Mapping[TopicPartition, int], starts: Mapping[TopicPartition, int]) -> None:
    """Raises LakeConflictError for the first partition that does not end where the plan began."""
    for partition, start in starts.items():
        end = known.get(partition)
        if end is not None and end != start:
            raise LakeConflictError(
                f"{partition.topic}-{partition.partition} of pipeline {pipeline!r} ends at {end} in the table, "
                f"but this load planned from {start}: another copy of the pipeline is running"
            )


def new_columns(known: pa.Schema, wanted: Sequence[pa.Field]) -> list[pa.Field]:
    """The columns of `wanted` that a table lacks. Raises PenstockError for one that it has with another type."""
    for each in wanted:
        if each.name in known.names and known.field(each.name).type != each.type:
            raise PenstockError(
                f"column {each.name} is {known.field(each.name).type} in the table and cannot become {each.type}"
            )
    return [pa.field(each.name, each.type) for each in wanted if each.name not in known.names]


@contextmanager
def reading(table: LakeTable) -> Iterator[None]:
    """Turns what a table's library raises, each its own, into one error."""
    try:
        yield
    except PenstockError:
        raise
    except Exception as error:
        raise PenstockError(f"the table at {table.uri} is gone or cannot be read: {one_line(error)}") from error


def one_line(error: BaseException) -> str:
    """The first line of an error that says anything."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
