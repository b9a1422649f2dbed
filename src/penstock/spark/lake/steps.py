"""What maintenance can do to a table, whatever its format: `delta_maintenance` and `iceberg_maintenance` do it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.spark.lake.clustering import Cluster
from penstock.spark.lake.ranges import Range
from penstock.spark.lake.records import DataFile, TopicPartition
from penstock.spark.lake.table import TableFile

Figures = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Erased:
    """Rows that a commit takes out of a table: the erasure's id, and sorted disjoint ranges of offsets."""

    id: str
    rows: Mapping[TopicPartition, Sequence[Range]]


class Steps(ABC):
    """The maintenance steps for a table of one format."""

    @abstractmethod
    def compact(self, target_bytes: int, dry_run: bool, cluster: Cluster | None = None) -> Figures:
        """Merges small files into files of about a size, whose rows are sorted as `cluster` says."""

    @abstractmethod
    def expire(self, keep_hours: float, dry_run: bool) -> Figures:
        """Drops versions older than this, and shortens the table's log."""

    @abstractmethod
    def vacuum(self, keep_hours: float, dry_run: bool) -> Figures:
        """Deletes files older than this that no remaining version refers to."""

    @abstractmethod
    def replace(self, files: Sequence[TableFile], added: Sequence[DataFile], erased: Erased) -> bool:
        """Replaces files by others without some rows, and records those as gaps, in one commit.

        Returns False, and commits nothing, if another writer has changed one of the files.
        Raises LakeConflictError when others got in between every time.
        """

    @abstractmethod
    def former(self) -> list[TableFile]:
        """Data files that older versions name and the current one does not, as far as the table's log goes back."""

    @abstractmethod
    def forget(self, files: Sequence[str], before_ms: int, dry_run: bool) -> Sequence[str]:
        """Deletes files, whatever old versions from before a time name them; returns those that it leaves.

        It leaves those that the current version names, and in Iceberg a branch or a tag: they have other rows, too.
        """
