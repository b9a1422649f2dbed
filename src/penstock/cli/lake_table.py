"""The lake table that a command names: its arguments, and its opening."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from penstock.cli.common import add_pairs, check_modules, pairs

if TYPE_CHECKING:
    from penstock.spark.lake.table import LakeTable

LAKE_MODULES = ("numpy", "pyarrow", "deltalake")


def add_table(parser: argparse.ArgumentParser) -> None:
    """Adds the table, its format and its store's options."""
    parser.add_argument("table", metavar="TABLE", help="directory or URI of the table")
    parser.add_argument(
        "--table-format",
        choices=["auto", "delta", "iceberg"],
        default="auto",
        help="format of the table (default: auto-detected)",
    )
    what = "option of the store, such as AWS_ENDPOINT_URL, or of an Iceberg catalog, such as catalog.uri"
    add_pairs(parser, "--storage-option", what)


def open_named(arguments: argparse.Namespace, pipeline: str, *, records: bool = True) -> LakeTable:
    """The table that the arguments of `add_table` name; `records`: it must be a load's.

    Raises PenstockError if there is none.
    """
    check_modules("a lake table", LAKE_MODULES, "spark")
    from penstock.spark.lake.open import open_table

    return open_table(
        arguments.table,
        pipeline,
        format=arguments.table_format,
        create=False,
        records=records,
        storage_options=pairs(arguments.storage_option, "--storage-option"),
    )
