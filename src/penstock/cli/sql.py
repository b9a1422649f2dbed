"""Query topics with SQL.

A topic is a table: key, value, topic, partition, offset, timestamp, timestampType, headers. Names with dots or dashes
are quoted, as is the word "offset". The table json."TOPIC" has the fields of JSON values as columns too. The engine is
DuckDB; all tables end at the high watermarks of the moment when the query starts.

examples:
  penstock sql 'select count(*) from clicks'
  penstock sql 'select page, count(*) from json.clicks group by page order by 2 desc limit 10'
  penstock sql 'select decode(value) from "my.topic-1" where partition = 0 and "offset" >= 100'
  penstock sql "select * from clicks where timestamp > now() - interval 1 hour" --parquet clicks.parquet
  penstock sql < report.sql
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli.common import UsageError, add_bootstrap, with_client
from penstock.config.limits import SQL_JSON_SAMPLE_RECORDS, SQL_MEMORY, SQL_TABLE_ROWS
from penstock.errors import ConfigError

if TYPE_CHECKING:
    from penstock.sql.engine import Engine, Result

SUMMARY = "query topics with SQL"
NUMBER_TYPES = ("int", "uint", "float", "double", "decimal")


def register(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("query", nargs="?", metavar="QUERY", help="statements, separated by ; (the standard input)")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--csv", action="store_true", help="print CSV")
    form.add_argument("--json", action="store_true", help="print one JSON object a row")
    form.add_argument("--parquet", type=Path, metavar="FILE", help="write a Parquet file")
    parser.add_argument(
        "--max-rows",
        type=int,
        default=SQL_TABLE_ROWS,
        metavar="N",
        help=f"rows of a table to print ({SQL_TABLE_ROWS:,})",
    )
    add_bootstrap(parser)
    parser.add_argument("--committed", action="store_true", help="leave out what transactions have not committed")
    parser.add_argument(
        "--in-order",
        action="store_true",
        help="times never go back within a partition: a latest time in the query then ends the reading, too",
    )
    parser.add_argument(
        "--sample",
        type=int,
        default=SQL_JSON_SAMPLE_RECORDS,
        metavar="N",
        help=f"records from which the columns of JSON values are learnt ({SQL_JSON_SAMPLE_RECORDS:,})",
    )
    parser.add_argument(
        "--read", choices=("auto", "broker", "files"), default="auto", help="where records are read from (auto)"
    )
    parser.add_argument(
        "--log-dir", action="append", default=[], metavar="DIR", help="where a broker's log directory is mounted here"
    )
    parser.add_argument(
        "--memory", default=SQL_MEMORY, metavar="SIZE", help=f"beyond it the query spills into a file ({SQL_MEMORY})"
    )
    parser.add_argument(
        "--allow-files", action="store_true", help="let the query read and write files of this machine (read_csv, copy)"
    )


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
        committed=arguments.committed,
        in_order=arguments.in_order,
        memory=arguments.memory,
        files=arguments.allow_files,
        sample=arguments.sample,
    )
    check_brokers(arguments.bootstrap)
    with Engine(arguments.bootstrap, settings) as engine:
        answer(engine, query, arguments)
    return 0


def check_brokers(bootstrap: str) -> None:
    """Raises UsageError or UnreachableError, with what to do, when there are no brokers at the address."""

    async def nothing(_: object) -> int:
        return 0

    with_client(bootstrap, nothing)


def statements(arguments: argparse.Namespace) -> str:
    """The text to run. Raises UsageError when there is none."""
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
        said = f"{rows:,} rows{' shown, there are more: --max-rows, --csv, --json, --parquet' if more else ''}"
        print(f"{said}; {engine.read.records:,} records read in {seconds:.1f} s", file=sys.stderr)


def show(result: Result, arguments: argparse.Namespace) -> tuple[int, bool]:
    """One result in the form asked for; returns its rows, and whether it has more than are shown."""
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
