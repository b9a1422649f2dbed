"""See it all at work: a broker, three streams, a Spark load into Delta tables, pipelines, the proof, and a report.

The streams are this machine's operational data, the broker's own activity, and generated clicks of a site's visitors
with crawlers planted among them; twenty minutes of event time pass during the demo. The pipelines count what visitors
do, find the crawlers, and monitor machine and broker. Everything the demo starts ends with it, also on Ctrl-C. It needs
no network.

examples:
  penstock demo
  penstock demo --seconds 20 --directory /tmp/demo
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli.common import add_option, check_modules
from penstock.cli.dev_data import entries, held
from penstock.cli.stopping import Stopping, stopped_by_signals
from penstock.errors import ConfigError, PenstockError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.pipelines.demo.pipelines import Pipelines
    from penstock.pipelines.demo.publisher import Publishing
    from penstock.pipelines.demo.report import Job
    from penstock.pipelines.demo.results import Results
    from penstock.pipelines.demo.visitors import Visitors
    from penstock.spark.load.load import Load

INTERRUPTED_EXIT_CODE = 130
SUMMARY = "see it all in a minute: broker, streams, Spark load, pipelines, proof, report"

TOPICS = ("operations", "activity", "clicks")
PARTITIONS = 3
SETTINGS = {
    "spark.sql.shuffle.partitions": "2",  # the pipelines' states are small: each part costs, on few cores
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}
"""Spark's. The demo lives for a minute, in which compiling well what plans small batches takes the JVM more time than
it wins: an upsert of a thousand rows costs a third of the processor time without."""
READY_TIMEOUT_S = 30
STOP_TIMEOUT_S = 15
SECONDS_MAX = 86_400
MARK = ".penstock-demo"
"""A file that says that the directory is a demo's, and may be emptied by the next."""
MADE = frozenset({MARK, "broker", "broker.log", "lake", "pipelines", "report.html", "spark.log"})
"""What a demo makes there, and the next one removes."""


@dataclass(frozen=True, slots=True)
class Broker:
    """Where the demo's broker is."""

    bootstrap: str
    metrics: str


class Stopped(PenstockError):
    """Somebody asked the demo to stop."""


@contextlib.contextmanager
def broker(directory: Path) -> Iterator[Broker]:
    """A one-node cluster as a process of its own, ended after the block."""
    command = [sys.executable, "-m", "penstock", "dev", "--json", "--port", "0", "--metrics-port", "0"]
    log = directory / "broker.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [*command, "--data", str(directory / "broker")],
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,  # a Ctrl-C of the terminal reaches only us; we end it when we are done with it
        )
    try:
        assert process.stdout is not None
        timer = threading.Timer(READY_TIMEOUT_S, process.kill)
        timer.start()
        line = process.stdout.readline()
        timer.cancel()
        if not line:
            raise PenstockError(f"the broker did not start; see {log}")
        ready = json.loads(line)
        yield Broker(ready["bootstrap"], ready["metrics"])
    finally:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()


class Demo:
    """One run of the demo, from an empty directory to the report.

    Args:
        directory: for the broker's data, the lake and the report; what an earlier run left there is removed.
        seconds: how long to publish and load.
        stop: tells it to end early.
    """

    def __init__(self, directory: Path, seconds: float, stop: Stopping) -> None:
        self.directory = directory
        self.seconds = seconds
        self.stop = stop
        self.jobs: list[Job] = []
        self._terminal = sys.stdout.isatty()

    def run(self) -> int:
        """The whole of it; returns the exit code. Raises Stopped."""
        from penstock.pipelines.demo.activity import Activity
        from penstock.pipelines.demo.machine import Machine
        from penstock.pipelines.demo.publisher import Publisher
        from penstock.pipelines.demo.visitors import Visitors

        with room(self.directory), broker(self.directory) as at:
            self.say(f"broker      {at.bootstrap}, data in {self.directory / 'broker'}")
            machine, activity = Machine(), Activity(at.metrics)
            visitors = Visitors(at.bootstrap, "clicks", PARTITIONS, self.seconds)
            publishers: list[Publishing] = [
                Publisher(at.bootstrap, "operations", PARTITIONS, machine.read, machine.key),
                Publisher(at.bootstrap, "activity", PARTITIONS, activity.read, activity.key),
                visitors,
            ]
            for publisher in publishers:
                publisher.start()
            self.say("publishing  this machine's operational data and the broker's own activity, every second")
            self.say(f"            clicks of generated visitors, {visitors.speed:.0f} times as fast as real ones")
            try:
                return self._load_and_report(at, publishers, visitors)
            finally:
                for publisher in publishers:
                    publisher.stop()

    def _load_and_report(self, at: Broker, publishers: list[Publishing], visitors: Visitors) -> int:
        from penstock.pipelines.demo.pipelines import Pipelines
        from penstock.pipelines.demo.results import Results
        from penstock.spark.load.load import Load, LoadOptions
        from penstock.spark.session import end, session

        self.progress("spark       starting")
        self.proceed()
        spark = session("penstock demo", settings=SETTINGS, log=self.directory / "spark.log")
        try:
            self.proceed()
            self.progress(f"spark       {spark.version}, {spark.sparkContext.master}", last=True)
            for publisher in publishers:
                publisher.wait_for_topic()
            loads = [
                Load(spark, LoadOptions(at.bootstrap, [topic], str(self.directory / "lake" / topic), "demo"))
                for topic in TOPICS
            ]
            with contextlib.ExitStack() as stack:
                for load in loads:
                    stack.enter_context(load)
                pipelines = stack.enter_context(Pipelines(spark, at.bootstrap, self.directory / "pipelines"))
                self.progress("pipelines   starting")
                pipelines.start(self.proceed)
                self.progress("pipelines   activity, security and operations", last=True)
                self._load(loads, publishers, pipelines)
                results = Results(pipelines.table, visitors.published, visitors.planted(), pipelines.batches())
                return self._conclude(spark, loads, at, publishers, results)
        finally:
            end(spark)

    def _load(self, loads: list[Load], publishers: list[Publishing], pipelines: Pipelines) -> None:
        """Loads the topics side by side until the time is up, then to their ends."""
        began = time.monotonic()
        while (left := began + self.seconds - time.monotonic()) > 0:
            turn = time.monotonic()
            self._turn(loads, publishers)
            pipelines.check(self.proceed)
            self.progress(f"loading     {self._loaded()}, {max(0.0, left):.0f} s to go")
            self.stop.wait(min(left, max(0.0, turn + 1.0 - time.monotonic())))
            self.proceed()
        for publisher in publishers:
            publisher.stop()
        while self._turn(loads, publishers):
            self.proceed()
        self.progress(f"loading     {self._loaded()}, caught up", last=True)
        self.progress("pipelines   catching up")
        pipelines.catch_up(self.proceed)
        self.progress("pipelines   caught up", last=True)

    def _turn(self, loads: list[Load], publishers: list[Publishing]) -> bool:
        """Runs one job of each load; returns whether any of them found new records."""
        from penstock.pipelines.demo.report import Job

        for publisher in publishers:
            publisher.check()
        done = [
            Job(load.options.topics[0], time.time(), outcome.seconds, outcome.rows)
            for load in loads
            if (outcome := load.run_job()) is not None
        ]
        self.jobs += done
        return bool(done)

    def _loaded(self) -> str:
        return f"{sum(job.rows for job in self.jobs):,} rows in {len(self.jobs)} commits"

    def _conclude(
        self, spark: SparkSession, loads: list[Load], at: Broker, publishers: list[Publishing], results: Results
    ) -> int:
        """Verifies, writes the report, and prints what arrived where."""
        from penstock.cli.verify import conclusion, table
        from penstock.pipelines.demo.report import Ran, make_report
        from penstock.spark.lake.delta import DeltaLake
        from penstock.spark.lake.verify import verify

        verdicts = [verdict for load in loads for verdict in verify(load.lake)]
        published = sum(publisher.published for publisher in publishers)
        loaded = sum(verdict.rows for verdict in verdicts)
        self.say(f"published   {published:,} records; in the lake: {loaded:,}\n")
        self.say(table(verdicts, {}))
        self.say(conclusion(verdicts, {}) + "\n")
        for line in results.said():
            self.say(line)
        self.progress("report      drawing")
        report = self.directory / "report.html"
        operations, activity = (load.lake for load in loads[:2])
        assert isinstance(operations, DeltaLake)
        assert isinstance(activity, DeltaLake)
        ran = Ran(at.bootstrap, published, self.seconds, self.jobs)
        page = make_report(spark, (operations, activity), verdicts, ran, results, proceed=self.proceed)
        report.write_text(page, encoding="utf-8")
        self.progress(f"report      {report}", last=True)
        for load in loads:
            self.say(f"table       {load.lake.uri.rstrip('/')}  (version {load.lake.version})")
        self.say(f"prove it    penstock verify {loads[0].lake.uri.rstrip('/')}")
        return 0 if loaded == published and all(verdict.clean for verdict in verdicts) else 1

    def proceed(self) -> None:
        """Raises Stopped after Ctrl-C or SIGTERM; called wherever the demo can end cleanly."""
        if self.stop.is_set():
            raise Stopped("stopped; nothing is half done: each table ends at its last commit")

    def say(self, text: str) -> None:
        print(text, flush=True)

    def progress(self, text: str, *, last: bool = False) -> None:
        """A line that changes in place on a terminal; elsewhere only the last one is said."""
        if self._terminal:
            print(f"\r\x1b[K{text}", end="\n" if last else "", flush=True)
        elif last:
            print(text, flush=True)


@contextlib.contextmanager
def room(directory: Path) -> Iterator[None]:
    """An empty directory for a run, held against other processes meanwhile. What a demo left there is removed.

    Raises:
        ConfigError: it has what no demo made; nothing is removed then.
        StorageError: another demo runs in it.
    """
    found = sorted(entries(str(directory)))
    if found and MARK not in found:
        raise ConfigError(f"{directory} is not empty and no earlier demo's; name another with --directory")
    if foreign := [name for name in found if name not in MADE]:
        raise ConfigError(f"{directory} has what no demo made: {', '.join(foreign)}\n  move it away, or name another")
    directory.mkdir(parents=True, exist_ok=True)
    with held([str(directory)]):
        for name in found:
            if (path := directory / name).is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        (directory / MARK).write_text("penstock demo empties this directory when it runs again\n")
        yield


def positive(text: str) -> float:
    """A number of seconds as an argument."""
    seconds = float(text)
    if not 1 <= seconds <= SECONDS_MAX:
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and {SECONDS_MAX:,} seconds")
    return seconds


def register(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seconds",
        type=positive,
        default=os.environ.get("DEMO_SECONDS", "60"),
        help="how long to publish and load (default: $DEMO_SECONDS or 60)",
    )
    add_option(
        parser,
        "--directory",
        "DIR",
        "directory for data, lake and report; replaces an earlier demo's (default: $DEMO_DIRECTORY or demo)",
        type=Path,
        default=os.environ.get("DEMO_DIRECTORY", "demo"),
    )


def run(arguments: argparse.Namespace) -> int:
    """Runs the demo; returns the exit code."""
    check_installed()

    def heard() -> None:
        os.write(1, b"\nstopping\n")  # not print: a handler may interrupt one

    with stopped_by_signals(heard) as stop:
        try:
            return Demo(arguments.directory.absolute(), arguments.seconds, stop).run()
        except Stopped as stopped:
            print(stopped)
            return INTERRUPTED_EXIT_CODE


def check_installed() -> None:
    """Raises an error that names the missing packages, before anything is started."""
    check_modules("the demo", ("pyspark", "deltalake", "numba", "pyarrow"), "spark")
    from penstock.spark.java import find_java

    find_java()
