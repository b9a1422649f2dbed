"""Load topics into a Delta table, exactly once, with Spark.

The table is the checkpoint: stop the load at any time, by any means, and start it again; nothing is lost or doubled.

examples:
  penstock load clicks --table lake/clicks                 until Ctrl-C
  penstock load clicks orders --table lake/raw --once      until caught up
  penstock load clicks --table lake/clicks --starting 2026-01-31T08:00:00Z
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli.common import add_bootstrap, with_client
from penstock.cli.stopping import Stopping, stopped_by_signals
from penstock.client.client import EARLIEST, LATEST, Client
from penstock.errors import ConfigError, ErrorCode, RequestError

if TYPE_CHECKING:
    from penstock.spark.load.load import LoadOptions, Outcome

SPARK_LOG = Path(tempfile.gettempdir()) / "penstock-spark.log"
SUMMARY = "load topics into a Delta table, exactly once"


def register(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("topics", nargs="*", metavar="TOPIC", help="topics to load")
    parser.add_argument("--table", metavar="DIR", help="the Delta table; made if it is missing")
    add_bootstrap(parser)
    parser.add_argument("--pipeline", metavar="NAME", default="load", help="who loads; a table may have several (load)")
    parser.add_argument("--once", action="store_true", help="stop when caught up")
    parser.add_argument(
        "--starting",
        default="earliest",
        help="where a partition begins that the table has nothing of: earliest, latest, or a time (earliest)",
    )
    parser.add_argument("--interval-ms", type=int, default=1000, help="from the start of a job to the next (1000)")
    parser.add_argument(
        "--allow-data-loss", action="store_true", help="record offsets that retention removed as a gap, and go on"
    )
    parser.add_argument(
        "--skip-corrupt", action="store_true", help="leave broken batches out, record their offsets as a gap, and go on"
    )
    parser.add_argument("--master", help="Spark master (local[*])")
    parser.add_argument(
        "--spark-log",
        type=Path,
        metavar="FILE",
        default=SPARK_LOG,
        help="Spark's log (penstock-spark.log where temporary files go)",
    )
    parser.add_argument("--explain", action="store_true", help="print the Spark settings and their reasons, and stop")


def run(arguments: argparse.Namespace) -> int:
    """Runs the load; returns the exit code."""
    from penstock.spark.session import explain

    if arguments.explain:
        print(explain())
        return 0
    if not arguments.topics or not arguments.table:
        raise ConfigError("name the topics and the table: penstock load TOPIC... --table DIR")
    from penstock.spark.load.load import LoadOptions

    options = LoadOptions(
        bootstrap=arguments.bootstrap,
        topics=arguments.topics,
        table=str(Path(arguments.table).absolute()),
        pipeline=arguments.pipeline,
        starting=starting_point(arguments.starting),
        fail_on_data_loss=not arguments.allow_data_loss,
        skip_corrupt=arguments.skip_corrupt,
    )
    with stopped_by_signals() as stop:
        return load(options, arguments, stop)


def load(options: LoadOptions, arguments: argparse.Namespace, stop: Stopping) -> int:
    """Starts Spark and loads until `stop` is set, or until caught up with --once."""
    from penstock.spark.load.load import Load
    from penstock.spark.session import end, session

    check_topics(options)
    say = Progress()
    say.line(f"loading {', '.join(options.topics)} from {options.bootstrap} into {options.table}")
    spark = session(f"penstock load {options.pipeline}", master=arguments.master, log=arguments.spark_log)
    try:
        with Load(spark, options) as running:
            running.run(stop, arguments.interval_ms, say.heard, once=arguments.once)
    finally:
        say.done()
        end(spark)
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

    with_client(options.bootstrap, check)


def starting_point(text: str) -> int:
    """EARLIEST, LATEST or epoch milliseconds. Raises ConfigError."""
    if text in ("earliest", "latest"):
        return EARLIEST if text == "earliest" else LATEST
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            f"--starting {text!r} is neither earliest, latest nor a time like 2026-01-31T08:00Z"
        ) from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


class Progress:
    """One line that changes on a terminal; a line a job elsewhere."""

    def __init__(self) -> None:
        self._rows = 0
        self._began = time.monotonic()
        self._terminal = sys.stderr.isatty()

    def line(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def heard(self, outcome: Outcome) -> None:
        """Tells of a job that committed."""
        self._rows += outcome.rows
        rate = outcome.rows / outcome.seconds
        text = (
            f"version {outcome.version}  {self._rows:,} rows  {rate:,.0f} rows/s  "
            f"lag {outcome.lag:,}  job {outcome.seconds * 1000:.0f} ms"
        )
        print(f"\r\x1b[K{text}" if self._terminal else text, end="" if self._terminal else "\n", file=sys.stderr)
        sys.stderr.flush()

    def done(self) -> None:
        """The last word."""
        seconds = time.monotonic() - self._began
        start = "\n" if self._terminal and self._rows else ""
        print(f"{start}loaded {self._rows:,} rows in {seconds:.1f} s", file=sys.stderr, flush=True)
