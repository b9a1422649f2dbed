"""Alerts as episodes: windows of one client and rule that touch are one alert which grows, not many."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.spark.jobs.tables import rows_of


def known(path: str, found: pa.Table) -> pa.Table | None:
    """The episodes of a table that those found may continue."""
    since = pc.min(found.column("began"))
    return rows_of(path, filters=[("until", ">=", since.as_py())])


def merged(found: pa.Table, before: pa.Table | None) -> tuple[pa.Table, pa.Table]:
    """Alerts of windows joined with each other and with the episodes before.

    Args:
        found: client, agent, rule, began, until, requests, figure; a row a window.
        before: the same, a row an episode.

    Returns all episodes that are new or have grown, and those that are new. `requests` and `figure` of an episode are
    those of its window with most requests.
    """
    old = [] if before is None else before.select(found.column_names).to_pylist()
    begun = {identity(row) for row in old}
    grown: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in sorted([*old, *found.to_pylist()], key=lambda row: (row["began"], row["until"])):
        episodes = grown.setdefault((row["client"], row["rule"]), [])
        if episodes and row["began"] <= episodes[-1]["until"]:
            last = episodes[-1]
            busiest = max(last, row, key=lambda each: each["requests"])
            last.update(until=max(last["until"], row["until"]), requests=busiest["requests"], figure=busiest["figure"])
        else:
            episodes.append(dict(row))
    touched = {(row["client"], row["rule"]) for row in found.to_pylist()}
    rows = [row for key, episodes in grown.items() if key in touched for row in episodes]
    new = [row for row in rows if identity(row) not in begun]
    return pa.Table.from_pylist(rows, found.schema), pa.Table.from_pylist(new, found.schema)


def identity(row: dict[str, Any]) -> tuple[Any, ...]:
    """What makes an episode the same as one before."""
    return row["client"], row["rule"], row["began"]
