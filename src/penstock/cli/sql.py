"""Query topics with SQL.

A topic is a table with the columns key, value, topic, partition, offset, timestamp, timestampType and headers. Quote
names with dots or dashes, and the word "offset". The table json."TOPIC" also has the fields of JSON values as columns.
The engine is DuckDB; every table ends at the high watermark at the start of the query.

examples:
  penstock sql 'select count(*) from clicks'
  penstock sql 'select page, count(*) from json.clicks group by page'
  penstock sql 'select decode(value) from "my.topic" where "offset" >= 100'
  penstock sql "select * from clicks where timestamp > now() - interval 1 hour" --parquet clicks.parquet
  penstock sql < report.sql
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli.common import (
    add_bootstrap,
    add_flag,
    add_isolation,
    add_log_dirs,
    add_option,
    isolation_of,
    security_of,
    with_client_at,
)
from penstock.cli.output import counted
from penstock.errors import ConfigError, UsageError
from penstock.sql.limits import SQL_JSON_SAMPLE_RECORDS, SQL_MEMORY, SQL_TABLE_ROWS

if TYPE_CHECKING:
    from penstock.client.security import ClientSecurity
    from penstock.sql.engine import Engine, Result

SUMMARY = "query topics with SQL"
NUMBER_TYPES = ("int", "uint", "float", "double", "decimal")


def register(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("query", nargs="?", metavar="QUERY", help="statements, separated by ; (default: stdin)")
    form = parser.add_mutually_exclusive_group()
    add_flag(form, "--csv", "print CSV")
    add_flag(form, "--json", "print one JSON object per row")
    add_option(form, "--parquet", "FILE", "write a Parquet file", type=Path)
    add_option(parser, "--max-rows", "N", "maximum rows to print as a table", type=int, default=SQL_TABLE_ROWS)
    add_bootstrap(parser)
    add_isolation(parser)
    add_flag(
        parser,
        "--in-order",
        "assume timestamps never go back within a partition, so that an upper bound on time ends reading early",
    )
    add_option(
        parser,
        "--sample",
        "N",
        "records to infer the columns of JSON values from",
        type=int,
        default=SQL_JSON_SAMPLE_RECORDS,
    )
    parser.add_argument(
        "--read", choices=("auto", "broker", "files"), default="auto", help="where to read records from (default: auto)"
    )
    add_log_dirs(parser)
    add_option(parser, "--memory", "SIZE", "memory above which a query spills to a file", default=SQL_MEMORY)
    add_flag(parser, "--allow-files", "allow the query to read and write local files (read_csv, copy)")


def run(arguments: argparse.Namespace) -> int:
    """Runs the statements; returns the exit code."""
    query = statements(arguments)
    if arguments.max_rows < 1 or arguments.sample < 1:
        raise UsageError("--max-rows and --sample must be at least 1")
    try:
        from penstock.sql.engine import Engine, Settings
    except ModuleNotFoundError as error:
        raise ConfigError(f"SQL needs {error.name}: pip install 'penstock[sql]'") from None
    settings = Settings(
        read=arguments.read,
        log_dirs=tuple(arguments.log_dir),
        committed=bool(isolation_of(arguments)),
        in_order=arguments.in_order,
        memory=arguments.memory,
        files=arguments.allow_files,
        sample=arguments.sample,
    )
    security = security_of(arguments)
    check_brokers(arguments.bootstrap, security)
    with Engine(arguments.bootstrap, settings, security) as engine:
        answer(engine, query, arguments)
    return 0


def check_brokers(bootstrap: str, security: ClientSecurity) -> None:
    """Raises UsageError, UnreachableError or AuthenticationError, with what to do, when no broker can be asked."""

    async def nothing(_: object) -> int:
        return 0

    with_client_at(bootstrap, security, nothing)


def statements(arguments: argparse.Namespace) -> str:
    """The SQL text to run. Raises UsageError if it is empty."""
    if arguments.query in (None, "-"):
        if sys.stdin.isatty():
            raise UsageError("what is the query? penstock sql 'select count(*) from clicks'")
        text = sys.stdin.read()
    else:
        text = arguments.query
    if not text.strip():
        raise UsageError("the query is empty")
    return str(text)


def answer(engine: Engine, query: str, arguments: argparse.Namespace) -> None:
    """Prints or writes what each statement answers, and on a terminal how much that took."""
    began = time.monotonic()
    rows, more, written = 0, False, False
    for result in engine.run(query):
        if not result.names:
            continue
        if arguments.parquet is not None and written:
            raise UsageError("--parquet takes one result, and the statements have several")
        got, more = show(result, arguments)
        rows += got
        written = True
    if sys.stderr.isatty() or more:
        seconds = time.monotonic() - began
        said = f"{counted(rows, 'row')}{' shown, there are more: --max-rows, --csv, --json, --parquet' if more else ''}"
        print(f"{said}; {counted(engine.read.records, 'record')} read in {seconds:.1f} s", file=sys.stderr)


def show(result: Result, arguments: argparse.Namespace) -> tuple[int, bool]:
    """Prints one result in the requested format; returns its rows, and whether some were left out."""
    from penstock.cli.output import print_table
    from penstock.sql.output import table_rows, write_csv, write_json, write_parquet

    if arguments.parquet is not None:
        return write_parquet(result, arguments.parquet), False
    if arguments.csv:
        return write_csv(result, sys.stdout), False
    if arguments.json:
        return write_json(result, sys.stdout), False
    rows, more = table_rows(result, arguments.max_rows)
    numbers = [field.name for field in result.schema if str(field.type).startswith(NUMBER_TYPES)]
    print_table(result.names, rows, right=numbers)
    return len(rows), more
