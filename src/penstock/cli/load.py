"""Load topics into lake tables, exactly once, with Spark.

The table is the checkpoint: stop the load at any time, by any means, and start it again; nothing is lost or
duplicated.

examples:
  penstock load clicks --table lake/clicks                 until Ctrl-C
  penstock load clicks orders --table lake --table-per-topic --once     until caught up
  penstock load clicks --table lake/clicks --format json --schema "page string, user string, ms bigint"
  penstock load clicks --table lake/clicks --format avro --schema-registry http://registry:8081
  penstock load clicks --table lake/clicks --from 2026-01-01 --until 2026-02-01     what the table lacks of January
  penstock load --subscribe-pattern 'web-.*' --table s3://lake/web --storage-option AWS_REGION=eu-west-1
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.cli.common import (
    add_bootstrap,
    add_flag,
    add_log_dirs,
    add_option,
    add_pairs,
    check_modules,
    names_in,
    pairs,
    security_of,
    with_client_at,
)
from penstock.cli.lake_table import LAKE_MODULES
from penstock.cli.output import counted
from penstock.cli.spark import add_spark_session
from penstock.cli.stopping import Stopping, stopped_by_signals
from penstock.cli.times import timestamp_ms
from penstock.client.client import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED, Client
from penstock.errors import ConfigError, ErrorCode, RequestError, UsageError
from penstock.spark.limits import LOAD_INLINE_OFFSETS, LOAD_OFFSETS_PER_JOB

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.spark.load.load import LoadOptions, Outcome

SUMMARY = "load topics into lake tables, exactly once"
INTERVAL_MS = 250


def register(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topics", nargs="*", metavar="TOPIC", help="topics to load")
    add_option(parser, "--subscribe-pattern", "REGEX", "load all matching topics, also those created later")
    add_option(parser, "--table", "TABLE", "directory or URI of the table; created if missing")
    add_bootstrap(parser)
    add_option(parser, "--pipeline", "NAME", "name of this load; a table may have several", default="load")
    add_option(
        parser, "--group", "NAME", "consumer group that shows the load's lag, '' for none (default: PIPELINE-TABLE)"
    )
    add_flag(parser, "--once", "stop when caught up")
    add_option(
        parser, "--starting", "WHERE", "where the first run starts: earliest, latest or a time", default="earliest"
    )
    _register_values(parser)
    _register_tables(parser)
    _register_running(parser)


def _register_values(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("values")
    add_option(group, "--format", "FORMAT", "format of the values: raw, json or avro", default="raw")
    add_option(
        group,
        "--schema",
        "COLUMNS",
        "columns of JSON values in Spark's syntax, or @FILE (default: inferred from the data)",
    )
    add_option(
        group,
        "--new-fields",
        "ACTION",
        "fields without a column: add a column, or quarantine the record",
        default="add",
    )
    add_option(group, "--schema-registry", "URL", "schema registry for Avro values")
    add_option(group, "--quarantine", "TABLE", "table for rejected records (default: TABLE_quarantine)")


def _register_tables(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("tables")
    add_option(group, "--table-format", "FORMAT", "delta or iceberg", default="delta")
    add_flag(group, "--table-per-topic", "one table per topic, below --table")
    add_flag(group, "--partition-by-date", "partition a new table by day (UTC)")
    add_option(
        group,
        "--partition-by",
        "COLUMNS",
        "partition a new table by columns, or day(COLUMN) or hour(COLUMN) of a time, with commas between",
    )
    add_option(group, "--cluster-by", "COLUMNS", "sort the rows of a new table's files by these, with commas between")
    add_flag(group, "--z-order", "with --cluster-by, compaction sorts by all these columns alike")
    add_option(group, "--event-time", "COLUMN", "when an event was, for --late-after-ms")
    add_option(
        group,
        "--late-after-ms",
        "MS",
        "add a column `late` to a new table: whether an event is so much older than its record",
        type=int,
    )
    add_pairs(group, "--storage-option", "option of the object store or catalog")
    add_option(group, "--from", "TIME", "reload: fill in what the table lacks since TIME, then stop", dest="from_time")
    add_option(group, "--until", "TIME", "end of a reload (default: now)")


def _register_running(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("running")
    add_option(
        group,
        "--interval-ms",
        "MS",
        "minimum ms from one job's start to the next, and so between commits",
        type=int,
        default=INTERVAL_MS,
    )
    add_option(group, "--offsets-per-job", "N", "maximum offsets per job", type=int, default=LOAD_OFFSETS_PER_JOB)
    add_option(
        group,
        "--inline-offsets",
        "N",
        "run jobs of at most N offsets without Spark",
        type=int,
        default=LOAD_INLINE_OFFSETS,
    )
    add_option(group, "--isolation", "LEVEL", "read_committed or read_uncommitted", default="read_committed")
    add_option(group, "--read", "SOURCE", "where to read closed segments from: auto, broker or files", default="auto")
    add_log_dirs(group)
    add_flag(
        group,
        "--allow-data-loss",
        "continue when retention or an unclean election has removed records, and record which are missing",
    )
    add_flag(group, "--skip-corrupt", "continue past corrupt batches, and record the gap")
    add_option(group, "--master", "URL", "Spark master, such as spark://HOST:PORT (default: local[*])")
    add_spark_session(group)


def run(arguments: argparse.Namespace) -> int:
    """Runs the load; returns the exit code."""
    from penstock.spark.session import explain

    if arguments.explain:
        print(explain())
        return 0
    check_modules("loading", ("numba", *LAKE_MODULES), "spark")
    options = options_of(arguments)
    with stopped_by_signals() as stop:
        return load(options, arguments, stop)


def options_of(arguments: argparse.Namespace) -> LoadOptions:
    """The load that the arguments ask for. Raises UsageError."""
    from penstock.spark.load.options import LoadOptions

    if bool(arguments.topics) == bool(arguments.subscribe_pattern) or not arguments.table:
        raise UsageError("name the topics (or --subscribe-pattern) and the table: penstock load TOPIC... --table TABLE")
    if arguments.interval_ms < 0:
        raise UsageError(f"--interval-ms {arguments.interval_ms}: it must be 0 or more")
    isolations = {"read_committed": READ_COMMITTED, "read_uncommitted": READ_UNCOMMITTED}
    if arguments.isolation not in isolations:
        raise UsageError(f"--isolation {arguments.isolation}: it must be read_committed or read_uncommitted")
    same: dict[str, Any] = {
        name: getattr(arguments, name)
        for name in (
            "bootstrap", "topics", "pipeline", "format", "schema_registry", "table_format", "table_per_topic",
            "partition_by_date", "quarantine", "offsets_per_job", "inline_offsets", "read", "skip_corrupt",
            "new_fields", "group", "z_order", "event_time", "late_after_ms",
        )
    }  # fmt: skip
    try:
        return LoadOptions(
            table=arguments.table if "://" in arguments.table else str(Path(arguments.table).absolute()),
            topic_pattern=arguments.subscribe_pattern,
            starting=starting_point(arguments.starting),
            fail_on_data_loss=not arguments.allow_data_loss,
            isolation=isolations[arguments.isolation],
            schema=schema_text(arguments.schema),
            storage_options=pairs(arguments.storage_option, "--storage-option"),
            log_dirs=tuple(arguments.log_dir),
            partition_by=names_in(arguments.partition_by),
            cluster_by=names_in(arguments.cluster_by),
            from_ms=None if arguments.from_time is None else timestamp_ms(arguments.from_time, "--from"),
            until_ms=None if arguments.until is None else timestamp_ms(arguments.until, "--until"),
            security=security_of(arguments),
            **same,
        )
    except ConfigError as error:
        raise UsageError(str(error)) from None


def schema_text(text: str | None) -> str | None:
    """A schema as it is given, or what the file behind an @ has. Raises UsageError."""
    if text is None or not text.startswith("@"):
        return text
    try:
        return Path(text[1:]).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--schema {text}: {error}") from None


def load(options: LoadOptions, arguments: argparse.Namespace, stop: Stopping) -> int:
    """Loads until `stop` is set, or until caught up with --once. Spark is started when the first large job comes."""
    from penstock.spark.load.load import Load
    from penstock.spark.session import end, session

    check_topics(options)
    say = Progress()
    what = options.topic_pattern if options.topic_pattern is not None else ", ".join(options.topics)
    say.line(f"loading {what} from {options.bootstrap} into {options.table}")
    started = []

    def spark() -> SparkSession:
        started.append(session(f"penstock load {options.pipeline}", master=arguments.master, log=arguments.spark_log))
        return started[0]

    try:
        with Load(spark, options) as running:
            running.run(stop, arguments.interval_ms, say.heard, once=arguments.once)
        say.done()
    except BaseException:
        if say.has_loaded:  # nothing at all is told by the error alone
            say.done()
        raise
    finally:
        for each in started:
            end(each)
    return 0


def check_topics(options: LoadOptions) -> None:
    """Raises UnreachableError or RequestError in a line now, and not after the seconds that Spark takes to start."""

    async def check(client: Client) -> int:
        for topic in options.topics:
            try:
                await client.topic(topic)
            except RequestError as error:
                if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                raise RequestError(error.code, f"there is no topic {topic} at {options.bootstrap}") from None
        return 0

    with_client_at(options.bootstrap, options.security, check)


def starting_point(text: str) -> int:
    """EARLIEST, LATEST or epoch milliseconds. Raises UsageError."""
    if text in ("earliest", "latest"):
        return EARLIEST if text == "earliest" else LATEST
    try:
        return timestamp_ms(text, "--starting")
    except UsageError:
        raise UsageError(f"--starting {text!r} is neither earliest, latest nor a time like 2026-01-31T08:00Z") from None


class Progress:
    """One line that changes on a terminal; a line a job elsewhere."""

    def __init__(self) -> None:
        self._rows = 0
        self._quarantined = 0
        self._began = time.monotonic()
        self._terminal = sys.stderr.isatty()

    @property
    def has_loaded(self) -> bool:
        """Whether a job committed anything."""
        return bool(self._rows or self._quarantined)

    def line(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def heard(self, outcome: Outcome) -> None:
        """Prints the progress after a job has committed."""
        self._rows += outcome.rows
        self._quarantined += outcome.quarantined
        rate = (outcome.rows + outcome.quarantined) / outcome.seconds
        beside = f"{self._quarantined:,} quarantined  " if self._quarantined else ""
        text = (
            f"version {outcome.version}  {self._rows:,} rows  {beside}{rate:,.0f} rows/s  "
            f"lag {outcome.lag:,}  job {outcome.seconds * 1000:.0f} ms"
        )
        print(f"\r\x1b[K{text}" if self._terminal else text, end="" if self._terminal else "\n", file=sys.stderr)
        sys.stderr.flush()

    def done(self) -> None:
        """Prints the summary at the end."""
        seconds = time.monotonic() - self._began
        start = "\n" if self._terminal and self._rows else ""
        beside = f", {self._quarantined:,} quarantined" if self._quarantined else ""
        print(f"{start}loaded {counted(self._rows, 'row')}{beside} in {seconds:.1f} s", file=sys.stderr, flush=True)
