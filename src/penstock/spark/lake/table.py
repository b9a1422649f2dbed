"""A lake table that is its own checkpoint, whatever its format.

A commit adds the data files of one bounded job and, atomically with them, moves the end offset of every partition that
the job read. It succeeds only if the table still ends where the job was planned from. So there is no other checkpoint:
a crash anywhere repeats a plan, and two copies of one pipeline cannot both commit. `open_table` makes one: `delta`
keeps its progress as that module says, `iceberg` as that one does.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

from penstock.errors import ConfigError, PenstockError
from penstock.spark.lake.destination import Destination, table_uri
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
    def version(self) -> int:
        """Grows with each commit: Delta's version, Iceberg's sequence number."""

    @property
    def directory(self) -> str:
        """Where the data files are: a path, or a URI of an object store."""
        return self.uri

    @abstractmethod
    def refresh(self) -> None:
        """Sees the commits that others have made since."""

    def end(self, partition: TopicPartition) -> int | None:
        """The next offset to load of a partition by this pipeline, or None if it never loaded any of it."""
        return self.ends().get(partition)

    @abstractmethod
    def ends(self) -> dict[TopicPartition, int]:
        """The next offset to load of every partition that this pipeline has loaded."""

    @abstractmethod
    def commit(
        self,
        files: Sequence[DataFile],
        starts: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        gaps: Sequence[Gap] = (),
        *,
        exclusive: bool = False,
    ) -> int:
        """Adds files and moves ends in one atomic commit; returns the table's new version.

        Args:
            files: what the tasks wrote; none is fine when only ends move.
            starts: where the plan began, a partition; the table must still end there.
            ends: the next offset of each partition after this commit.
            gaps: offsets within the ranges that legally carry no record.
            exclusive: fail also if an exclusive commit of another pipeline touched one of the partitions since the last
                refresh, so that what was planned from the claims of all pipelines still holds.

        Raises:
            LakeConflictError: the table no longer ends where the plan began. Nothing was committed.
        """

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
    def batches(self, columns: Sequence[str], topic: str | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of the current version, of one topic if named, in bounded memory. Can be called again."""

    @abstractmethod
    def destination(self) -> Destination:
        """Where tasks write this table's files."""

    def file_systems(self) -> Any:
        """The pyarrow filesystem in which the paths of `files` lie."""
        return self.destination().filesystem()

    def _check_starts(self, starts: Mapping[TopicPartition, int]) -> None:
        """Raises LakeConflictError for the first partition that does not end where the plan began."""
        check_starts(self.pipeline, self.ends(), starts)


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
    """Those of `wanted` that a table lacks. Raises PenstockError for one that it has with another type."""
    for each in wanted:
        if each.name in known.names and known.field(each.name).type != each.type:
            raise PenstockError(
                f"column {each.name} is {known.field(each.name).type} in the table and cannot become {each.type}"
            )
    return [pa.field(each.name, each.type) for each in wanted if each.name not in known.names]


def open_table(
    uri: str,
    pipeline: str,
    *,
    format: str = "delta",  # noqa: A002
    columns: pa.Schema = RECORD_SCHEMA,
    partition_by: Sequence[str] = (),
    create: bool = True,
    storage_options: Mapping[str, str] | None = None,
) -> LakeTable:
    """Opens a table, creating it if it is missing and `create` says so.

    Args:
        uri: a path, or a URI of an object store.
        pipeline: whose ends the table's commits move.
        format: "delta", "iceberg", or "auto": what is there.
        columns: those of a new table; an existing one must have the columns of a record and gets none added here.
        partition_by: columns by which a new table's files are apart; an existing one keeps its own.
        create: whether a table that is missing is made.
        storage_options: the store's, named as delta-rs names them; for Iceberg also `catalog.*`.

    Raises:
        ConfigError: an unknown format or an impossible location.
        PenstockError: the table is missing, or is not a load's.
    """
    if format not in (*FORMATS, "auto"):
        raise ConfigError(f"a table's format cannot be {format!r}: use delta or iceberg")
    uri = table_uri(uri)
    options = dict(storage_options or {})
    missing = [name for name in partition_by if name not in columns.names]
    if missing:
        raise ConfigError(f"a table cannot be partitioned by {', '.join(missing)}: it has no such column")
    if format == "auto":
        format = format_of(uri, options)  # noqa: A001
    if format == "delta":
        from penstock.spark.lake.delta import DeltaLake

        return DeltaLake.open(
            uri, pipeline, columns=columns, partition_by=partition_by, create=create, storage_options=options
        )
    try:
        from penstock.spark.lake.iceberg import IcebergLake
    except ModuleNotFoundError as error:
        raise PenstockError(f"Iceberg tables need penstock[iceberg]: {error}") from None
    return IcebergLake.open(
        uri, pipeline, columns=columns, partition_by=partition_by, create=create, storage_options=options
    )


def format_of(uri: str, storage_options: Mapping[str, str]) -> Format:
    """The format of the table at a place; "delta" where there is nothing."""
    if any(name.startswith("catalog.") for name in storage_options):
        return "iceberg"
    if "://" in uri or os.path.isdir(os.path.join(uri, "_delta_log")):
        return "delta"
    return "iceberg" if os.path.isdir(os.path.join(uri, "metadata")) else "delta"
