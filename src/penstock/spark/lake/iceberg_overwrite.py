"""One snapshot of an Iceberg table that puts files in the place of others, and what must hold before it may.

pyiceberg lets such a snapshot demand that the table's branch is where it was when the files were looked at. So whatever
anybody adds, merges or takes away in between is a conflict; nothing is tried again here.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from pyiceberg.conversions import from_bytes
from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.schema import index_name_by_id
from pyiceberg.table import Table
from pyiceberg.types import PrimitiveType

from penstock.errors import PenstockError
from penstock.spark.lake.records import DataFile
from penstock.spark.lake.table import TableFile

MARK = "penstock.mark"
"""Property of a snapshot by which its writer knows it."""
LAYOUT_MAX = 2
"""The newest layout of tables whose files are replaced here; the third numbers rows."""


class Lake(Protocol):
    """What is needed here of an `IcebergLake`."""

    table: Table
    uri: str

    def refresh(self) -> None: ...
    def forbid_retries(self) -> None: ...
    def location_of(self, path: str) -> str: ...


def overwrite(
    lake: Lake,
    files: Sequence[TableFile],
    added: Sequence[DataFile],
    properties: Mapping[str, str],
    told: Mapping[str, str],
) -> bool | None:
    """One try to put files in the place of others, atomically with properties of the table.

    Args:
        lake: the table, as it was when the files were chosen.
        files: which go; none is fine.
        added: which come.
        properties: of the table, that change with it.
        told: properties of the snapshot.

    Returns False if another writer has changed one of the files before, None if somebody got in between.
    """
    chosen_from = lake.table.current_snapshot()
    lake.forbid_retries()  # a commit, perhaps, whose answer tells of other ones
    if lake.table.current_snapshot() != chosen_from:
        return None
    wanted = {lake.location_of(file.path) for file in files}
    tasks = lake.table.scan().plan_files() if wanted else ()
    parts = [task.file for task in tasks if task.file.file_path in wanted]
    if len(parts) != len(wanted):
        return False
    mark = uuid.uuid4().hex
    transaction = lake.table.transaction()
    metadata = transaction.table_metadata
    new = [parquet_file_to_data_file(lake.table.io, metadata, lake.location_of(file.path)) for file in added]
    try:
        if properties:
            transaction.set_properties(dict(properties))
        update = transaction.update_snapshot({**told, MARK: mark})
        with update.overwrite() if parts else update.fast_append() as snapshot:
            for part in parts:
                snapshot.delete_data_file(part)
            for each in new:
                snapshot.append_data_file(each)
        transaction.commit_transaction()
    except Exception as error:
        lake.refresh()  # the answer may be lost: the table says
        summaries = [each.summary for each in lake.table.snapshots() if each.summary is not None]
        if any(each.additional_properties.get(MARK) == mark for each in summaries):
            return True
        if not isinstance(error, CommitFailedException | ValidationException):
            raise
        return None
    return True


def check_rewritable(lake: Lake) -> None:
    """Raises PenstockError for a table whose files cannot be read by the names of its present columns and values."""
    table = lake.table
    why = ""
    if table.metadata.format_version > LAYOUT_MAX:
        why = f"is of layout {table.metadata.format_version}"
    elif len(table.specs()) > 1:
        why = "was partitioned otherwise before"
    names: dict[int, str] = {}
    for schema in table.schemas().values():
        for field_id, name in index_name_by_id(schema).items():
            if names.setdefault(field_id, name) != name:
                why = f"has had column {name} under another name"
    if len(set(names.values())) < len(names):
        why = "has had two columns of one name"
    if any(getattr(each, "initial_default", None) is not None for each in table.schema().fields):
        why = "has columns with defaults"
    if why:
        raise PenstockError(f"the table at {lake.uri} {why}: its rows cannot be replaced here")


def spans_of(lake: Lake, names: Sequence[str]) -> dict[str, dict[str, tuple[Any, Any]]]:
    """By path and column the ends of the columns named, of those files and columns whose ends the manifests tell.

    Dates are days since 1970, times microseconds. A file's ends may be wider than its rows, never narrower.
    """
    schema, root = lake.table.schema(), lake.location_of("")
    fields = {name: schema.find_field(name) for name in names}
    found: dict[str, dict[str, tuple[Any, Any]]] = {}
    for task in lake.table.scan().plan_files():
        low, high = task.file.lower_bounds or {}, task.file.upper_bounds or {}
        of = found.setdefault(task.file.file_path.removeprefix(root), {})
        for name, field in fields.items():
            least, greatest = low.get(field.field_id), high.get(field.field_id)
            if least is not None and greatest is not None and isinstance(field.field_type, PrimitiveType):
                of[name] = (from_bytes(field.field_type, least), from_bytes(field.field_type, greatest))
    return found
