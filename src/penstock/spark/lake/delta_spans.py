"""The least and the greatest of columns in the files of a Delta table, as its log tells them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable


def spans_of(
    table: DeltaTable, partition_by: Sequence[str], names: Sequence[str]
) -> dict[str, dict[str, tuple[Any, Any]]]:
    """By path and column the ends of the columns named, of those files and columns whose ends are told.

    A partition column has one value in a file. A file's ends may be wider than its rows, never narrower, but for
    dates and times beyond the years 1 to 9999: the nearest of them stands in for those.
    """
    actions = pa.table(table.get_add_actions(flatten=False))
    paths = [unquote(path) for path in actions["path"].to_pylist()]
    found: dict[str, dict[str, tuple[Any, Any]]] = {path: {} for path in paths}
    for name in names:
        if name in partition_by:
            low = high = _field(actions, "partition", name)
        else:
            low, high = _field(actions, "min", name), _field(actions, "max", name)
        for path, least, greatest in zip(paths, low, high, strict=True):
            if least is not None and greatest is not None:
                found[path][name] = (least, greatest)
    return found


def _field(actions: pa.Table, column: str, name: str) -> list[Any]:
    """One column's entries in a struct of all; None where there is none."""
    nothing = [None] * actions.num_rows
    if column not in actions.column_names or name not in [each.name for each in actions.schema.field(column).type]:
        return nothing
    try:
        return list(pc.struct_field(actions[column], [name]).to_pylist())
    except (OverflowError, ValueError):  # times that Python has not
        return nothing
