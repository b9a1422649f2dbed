"""A catalog that checks whether a commit that failed has landed after all.

pyiceberg believes a conflict, and deletes the manifests that it wrote. But when something on the way repeats a request
(a proxy, an HTTP client, a load balancer), the second copy conflicts with the first, which succeeded. Other errors (a
gateway's 502, a broken connection) leave open whether the commit landed. So `ConfirmingCatalog` stands between a table
and its catalog: after any error in a commit that adds a snapshot it loads the table again and looks for that snapshot,
whose id is random. If it is there, the commit succeeded; if the table cannot be loaded, nothing is deleted.
"""

from __future__ import annotations

from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitStateUnknownException
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import AddSnapshotUpdate, TableRequirement, TableUpdate


class ConfirmingCatalog:
    """The part of a catalog that a table uses, with commits whose outcome is confirmed."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """As the catalog's.

        Raises CommitFailedException only if the commit did not land; CommitStateUnknownException if that is not known.
        """
        try:
            return self._catalog.commit_table(table, requirements, updates)
        except Exception as error:
            added = [each.snapshot.snapshot_id for each in updates if isinstance(each, AddSnapshotUpdate)]
            if not added:
                raise
            try:
                fresh = self._catalog.load_table(table.name())
            except Exception as unanswered:
                raise CommitStateUnknownException(f"{error}; and asked after it: {unanswered}") from error
            if all(fresh.metadata.snapshot_by_id(each) is not None for each in added):
                told: Any = {"metadata": fresh.metadata, "metadata-location": fresh.metadata_location}
                return CommitTableResponse(**told)
            raise


def with_confirmed_commits(table: Table) -> Table:
    """The same table, whose commits go through `ConfirmingCatalog`."""
    catalog: Any = ConfirmingCatalog(table.catalog)
    return Table(table.name(), table.metadata, table.metadata_location, table.io, catalog, table.config)
