"""Opens a lake table of whatever format: the one place that knows all formats there are."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from penstock.errors import ConfigError, PenstockError
from penstock.spark.lake.destination import table_uri
from penstock.spark.lake.records import RECORD_SCHEMA
from penstock.spark.lake.scan import History
from penstock.spark.lake.table import FORMATS, Format, LakeTable


def open_table(
    uri: str,
    pipeline: str,
    *,
    format: str = "delta",  # noqa: A002 - as Spark names it
    columns: pa.Schema = RECORD_SCHEMA,
    partition_by: Sequence[str] = (),
    create: bool = True,
    records: bool = True,
    storage_options: Mapping[str, str] | None = None,
    settings: Mapping[str, str] | None = None,
) -> LakeTable:
    """Opens a table, creating it if it is missing and `create` says so.

    Args:
        uri: a path, or a URI of one of `destination.STORES`.
        pipeline: whose ends the table's commits move.
        format: "delta", "iceberg", or "auto": what is there.
        columns: those of a new table; an existing one gets none added here.
        partition_by: columns by which a new table's files are apart; an existing one keeps its own.
        create: whether a table that is missing is made.
        records: whether the table must have the columns of a record, as a load's have.
        storage_options: the store's, named as delta-rs names them; for Iceberg also `catalog.*`.
        settings: further properties of a new table.

    Raises:
        ConfigError: an unknown format or an impossible location.
        PenstockError: the table is missing, or is not a load's and must be.
    """
    if format not in (*FORMATS, "auto"):
        raise ConfigError(f"a table's format cannot be {format!r}: use delta or iceberg")
    uri = table_uri(uri)
    options = dict(storage_options or {})
    missing = [name for name in partition_by if name not in columns.names]
    if missing:
        raise ConfigError(f"a table cannot be partitioned by {', '.join(missing)}: it has no such column")
    told: dict[str, Any] = {
        "columns": columns,
        "partition_by": partition_by,
        "create": create,
        "records": records,
        "storage_options": options,
        "settings": settings,
    }
    if (format_of(uri, options) if format == "auto" else format) == "delta":
        from penstock.spark.lake.delta import DeltaLake

        return DeltaLake.open(uri, pipeline, **told)
    try:
        from penstock.spark.lake.iceberg import IcebergLake
    except ModuleNotFoundError as error:
        raise PenstockError(f"Iceberg tables need penstock[iceberg]: {error}") from None
    return IcebergLake.open(uri, pipeline, **told)


def open_history(uri: str, table_format: str, storage_options: Mapping[str, str]) -> History:
    """The history of the table at a place, of one format or of `auto`. Raises ConfigError, PenstockError."""
    if (format_of(uri, storage_options) if table_format == "auto" else table_format) == "delta":
        from penstock.spark.lake.delta_scan import DeltaHistory

        return DeltaHistory(uri, storage_options)
    try:
        from penstock.spark.lake.iceberg_scan import IcebergHistory
    except ModuleNotFoundError as error:
        raise PenstockError(f"Iceberg tables need penstock[iceberg]: {error}") from None
    return IcebergHistory(uri, storage_options)


def format_of(uri: str, storage_options: Mapping[str, str]) -> Format:
    """The format of the table at a place; "delta" where there is nothing."""
    if any(name.startswith("catalog.") for name in storage_options):
        return "iceberg"
    if "://" in uri or os.path.isdir(os.path.join(uri, "_delta_log")):
        return "delta"
    return "iceberg" if os.path.isdir(os.path.join(uri, "metadata")) else "delta"
