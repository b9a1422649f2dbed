"""Alerts as episodes: windows of one client and rule that touch are one alert which grows, not many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.pipelines.jobs.tables import rows_of


def known(path: str, found: pa.Table) -> pa.Table | None:
    """The episodes of a table that those found may continue."""
    since = pc.min(found.column("began"))
    return rows_of(path, filters=[("until", ">=", since.as_py())])


def merged(found: pa.Table, before: pa.Table | None, keys: Sequence[str], weight: str) -> tuple[pa.Table, pa.Table]:
    """Alerts of windows joined with each other and with the episodes before.

    Args:
        found: `keys`, began, until and further columns; a row a window.
        before: the same, a row an episode.
        keys: whose alert it is, and of what rule.
        weight: the column whose greatest value tells which window's further columns an episode has.

    Returns all episodes that are new or have grown, and those that are new.
    """
    old = [] if before is None else before.select(found.column_names).to_pylist()
    begun = {(*identity(row, keys), row["began"]) for row in old}
    grown: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in sorted([*old, *found.to_pylist()], key=lambda row: (row["began"], row["until"])):
        episodes = grown.setdefault(identity(row, keys), [])
        if episodes and row["began"] <= episodes[-1]["until"]:
            last = episodes[-1]
            span = {"began": last["began"], "until": max(last["until"], row["until"])}
            episodes[-1] = {**max(last, row, key=lambda each: abs(each[weight])), **span}
        else:
            episodes.append(row)
    touched = {identity(row, keys) for row in found.to_pylist()}
    rows = [row for key, episodes in grown.items() if key in touched for row in episodes]
    new = [row for row in rows if (*identity(row, keys), row["began"]) not in begun]
    return pa.Table.from_pylist(rows, found.schema), pa.Table.from_pylist(new, found.schema)


def identity(row: dict[str, Any], keys: Sequence[str]) -> tuple[Any, ...]:
    """The subject and the rule of an alert."""
    return tuple(row[name] for name in keys)
