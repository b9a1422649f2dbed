"""What maintenance can do to a table, whatever its format: `delta_maintenance` and `iceberg_maintenance` do it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

Figures = dict[str, Any]


class Steps(ABC):
    """The maintenance steps for a table of one format."""

    @abstractmethod
    def compact(self, target_bytes: int, dry_run: bool) -> Figures:
        """Merges small files into files of about a size."""

    @abstractmethod
    def expire(self, keep_hours: float, dry_run: bool) -> Figures:
        """Drops versions older than this, and shortens the table's log."""

    @abstractmethod
    def vacuum(self, keep_hours: float, dry_run: bool) -> Figures:
        """Deletes files older than this that no remaining version refers to."""
