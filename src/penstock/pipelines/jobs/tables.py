"""Delta tables of results: rows with a key, where a new row of a key replaces the old one.

Results are small beside their input (a row a minute and page, say), so the driver merges them. A batch that Spark
repeats after a crash, or a checkpoint that was deleted, writes the same rows again under the same keys: the tables are
exactly right either way, without trusting Spark's batch numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from penstock.pipelines.limits import RESULT_TABLE_FILES_MAX

Options = Mapping[str, str] | None


def upsert(path: str, rows: pa.Table, keys: Sequence[str], storage_options: Options = None) -> int:
    """Writes rows, each in the place of the row with the same key; returns how many. Makes the table if it is missing.

    Args:
        path: directory or URI of the Delta table.
        rows: of which no two have the same key.
        keys: the columns of the key; none of them null.
        storage_options: of an object store.
    """
    if not rows.num_rows:
        return 0
    table = DeltaTable.create(path, rows.schema, mode="ignore", storage_options=dict(storage_options or {}))
    same = " AND ".join([*spans(rows, keys), *(f"old.{name} = new.{name}" for name in keys)])
    merge = table.merge(rows, same, source_alias="new", target_alias="old")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    table.update_incremental()
    if len(table.file_uris()) > RESULT_TABLE_FILES_MAX:
        table.optimize.compact()
        table.vacuum(dry_run=False)
    return int(rows.num_rows)


def spans(rows: pa.Table, keys: Sequence[str]) -> list[str]:
    """For the key's times, the span that the rows have, as a condition: files outside of it are not read at all."""
    import pyarrow.compute as pc

    found = []
    for name in keys:
        if pa.types.is_timestamp(rows.schema.field(name).type):
            ends = pc.min_max(rows.column(name)).as_py()
            low, high = (f"cast('{ends[end].isoformat()}' as timestamp)" for end in ("min", "max"))
            found.append(f"old.{name} BETWEEN {low} AND {high}")
    return found


def rows_of(path: str, storage_options: Options = None, filters: Any = None, columns: Any = None) -> pa.Table | None:
    """A table's rows, those that pass `filters` (of pyarrow); None if there is no table yet."""
    try:
        table = DeltaTable(path, storage_options=dict(storage_options or {}))
    except TableNotFoundError:
        return None
    return table.to_pyarrow_table(filters=filters, columns=columns)
