"""A version of a lake table as somebody reads it who has never heard of its format: columns, files, where they are.

`delta_scan` and `iceberg_scan` make them. What they do not understand of a table they refuse, as a reader must
who would else give back rows that were deleted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from penstock.errors import PenstockError
from penstock.spark.lake.destination import Destination


class UnreadableError(PenstockError):
    """The table, or a version of it, cannot be read as it was asked for; the message says why."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column and how it is found in a file.

    `field_id` is Iceberg's, by which a column is the same under another name. A file without such ids is read by
    `names`, under any of which the column may be there.
    """

    name: str
    type: pa.DataType
    field_id: int | None = None
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScanFile:
    """A data file of a table: where it is, relative to the table.

    `partition_values` are of the columns by which the table's files are apart: as text or typed, None for null.
    """

    path: str
    size_bytes: int
    partition_values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One version of a table, and its files in a fixed order, oldest first."""

    version: int
    columns: Sequence[Column]
    files: Sequence[ScanFile]


@dataclass(frozen=True, slots=True)
class Change:
    """What one commit did to the rows.

    `files` were added, in a fixed order. `removes` says that rows were taken away, by `deletes_only` without any added
    instead. A commit that only moved rows from file to file has neither.
    """

    version: int
    files: Sequence[ScanFile]
    removes: bool = False
    deletes_only: bool = False


class History(ABC):
    """A table's versions: Delta's, or Iceberg's sequence numbers."""

    uri: str

    @abstractmethod
    def refresh(self) -> None:
        """Sees the table as it is now. Raises PenstockError if it cannot be read."""

    @abstractmethod
    def identity(self) -> str:
        """Tells the table from one that was dropped and made again in its place; as of the last refresh."""

    @abstractmethod
    def newest(self) -> int:
        """The newest version as of the last refresh; -1 before the first."""

    @abstractmethod
    def oldest(self) -> int:
        """The first version whose changes can still be told."""

    @abstractmethod
    def at(self, version: int | None = None) -> Snapshot:
        """A version with its files, the newest if none is named. Raises UnreadableError."""

    @abstractmethod
    def columns_at(self, version: int | None = None) -> Sequence[Column]:
        """The columns of a version. Raises UnreadableError."""

    @abstractmethod
    def version_at(self, time_ms: int) -> int:
        """The newest version at a time. Raises UnreadableError before the first that is known."""

    @abstractmethod
    def changes(self, since: int, until: int, had: int | None = None) -> Iterator[Change]:
        """What the versions from `since` to before `until` did, in their order.

        `had` is what `count` told of the version before `since`. Raises UnreadableError if a version is gone.
        """

    def count(self, version: int) -> int | None:
        """How many files a version has, where `changes` needs that; None if it does not, or it is not known."""
        return None

    @abstractmethod
    def destination(self) -> Destination:
        """Where the files are."""


def told(time_ms: int) -> str:
    """A time for people."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
