"""The columns of tables that are there, for the page: nothing is run for it."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import PenstockError
from penstock.pipelines.models.project import VIEW, Model, Project
from penstock.spark.lake.open import open_table


def columns_of(project: Project) -> dict[str, Mapping[str, str]]:
    """By node the types of its columns; nodes that are not stored, or not yet, are left out."""
    found: dict[str, Mapping[str, str]] = {}
    for node in project.nodes():
        if node.table is None or (isinstance(node, Model) and node.materialized == VIEW):
            continue
        try:
            lake = open_table(
                node.table,
                "penstock-lake",
                format="auto",
                create=False,
                records=False,
                storage_options=project.storage_options,
            )
        except PenstockError:
            continue
        found[node.name] = {field.name: str(field.type) for field in lake.columns}
    return found
