"""See it all at work: a broker, two streams of real data, a Spark load into Delta tables, the proof, and a report.

The streams are this machine's operational data and the broker's own activity. Everything that the demo starts ends with
it, Ctrl-C included. It needs no network.

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
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import PenstockError
from penstock.spark.demo.activity import Activity
from penstock.spark.demo.machine import Machine
from penstock.spark.demo.publisher import Publisher

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.spark.load import Load, Outcome

SUMMARY = "a broker, real data, a Spark load, the proof and a report, in a minute"

TOPICS = ("operations", "activity")
PARTITIONS = 3
READY_TIMEOUT_S = 30
STOP_TIMEOUT_S = 15


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
    """One run."""

    def __init__(self, directory: Path, seconds: float) -> None:
        self.directory = directory
        self.seconds = seconds
        self.stop = threading.Event()
        self.jobs: list[float] = []
        self._terminal = sys.stdout.isatty()
        self._rows = 0

    def run(self) -> int:
        """The whole of it; returns the exit code."""
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)
        with broker(self.directory) as at:
            self.say(f"broker      {at.bootstrap}, data in {self.directory / 'broker'}")
            machine, activity = Machine(), Activity(at.metrics)
            publishers = [
                Publisher(at.bootstrap, "operations", PARTITIONS, machine.read, "kind"),
                Publisher(at.bootstrap, "activity", PARTITIONS, activity.read, "kind"),
            ]
            for publisher in publishers:
                publisher.start()
            self.say("publishing  this machine's operational data, and the broker's own activity, every second")
            try:
                return self._load_and_report(at, publishers)
            finally:
                for publisher in publishers:
                    publisher.stop()

    def _load_and_report(self, at: Broker, publishers: list[Publisher]) -> int:
        from penstock.spark.load import Load, LoadOptions
        from penstock.spark.session import session

        self.say("spark       starting")
        spark = session("penstock demo", log=self.directory / "spark.log")
        try:
            loads = [
                Load(spark, LoadOptions(at.bootstrap, [topic], str(self.directory / "lake" / topic), "demo"))
                for topic in TOPICS
            ]
            with contextlib.ExitStack() as stack:
                for load in loads:
                    stack.enter_context(load)
                self._load(loads, publishers)
                return self._conclude(spark, loads, at, publishers)
        finally:
            spark.stop()

    def _load(self, loads: list[Load], publishers: list[Publisher]) -> None:
        """Loads both topics side by side until the time is up, then to their ends."""
        began = time.monotonic()
        while (left := began + self.seconds - time.monotonic()) > 0 and not self.stop.is_set():
            turn = time.monotonic()
            self._turn(loads, publishers)
            self.progress(f"loading     {self._rows:,} rows in {len(self.jobs)} commits, {left:.0f} s to go")
            self.stop.wait(max(0.0, turn + 1.0 - time.monotonic()))
        if self.stop.is_set():
            raise Stopped("stopped; nothing is half done: a table ends at its last commit")
        for publisher in publishers:
            publisher.stop()
        while self._turn(loads, publishers):
            pass
        self.progress(f"loading     {self._rows:,} rows in {len(self.jobs)} commits, caught up", last=True)

    def _turn(self, loads: list[Load], publishers: list[Publisher]) -> bool:
        """One job of each load; whether any found something new."""
        for publisher in publishers:
            if publisher.failure is not None:
                raise PenstockError(f"publishing {publisher.topic} failed: {publisher.failure}")
        outcomes: list[Outcome | None] = [load.run_job() for load in loads]
        for outcome in filter(None, outcomes):
            self.jobs.append(outcome.seconds)
            self._rows += outcome.rows
        return any(outcomes)

    def _conclude(self, spark: SparkSession, loads: list[Load], at: Broker, publishers: list[Publisher]) -> int:
        """Verifies, writes the report, says what arrived where."""
        from penstock.cli.verify import conclusion, table
        from penstock.spark.demo.report import Ran, make_report
        from penstock.spark.verify import verify

        verdicts = [verdict for load in loads for verdict in verify(load.lake)]
        published = sum(publisher.published for publisher in publishers)
        loaded = sum(verdict.rows for verdict in verdicts)
        self.say(f"published   {published:,} records; in the lake: {loaded:,}\n")
        self.say(table(verdicts, {}))
        self.say(conclusion(verdicts) + "\n")
        report = self.directory / "report.html"
        report.write_text(
            make_report(spark, loads[0].lake, loads[1].lake, verdicts, Ran(at.bootstrap, self.seconds, self.jobs))
        )
        for load in loads:
            self.say(f"table       {load.lake.directory}  (version {load.lake.table.version()})")
        self.say(f"report      {report.absolute()}")
        return 0 if loaded == published and all(verdict.clean for verdict in verdicts) else 1

    def say(self, text: str) -> None:
        print(text, flush=True)

    def progress(self, text: str, *, last: bool = False) -> None:
        """A line that changes in place on a terminal; elsewhere only the last one is said."""
        if self._terminal:
            print(f"\r\x1b[K{text}", end="\n" if last else "", flush=True)
        elif last:
            print(text, flush=True)


def register(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    seconds = float(os.environ.get("DEMO_SECONDS", "60"))
    directory = Path(os.environ.get("DEMO_DIRECTORY", "demo"))
    parser.add_argument("--seconds", type=float, default=seconds, help="how long to publish (DEMO_SECONDS, 60)")
    parser.add_argument(
        "--directory", type=Path, default=directory, help="for data, lake and report; emptied (DEMO_DIRECTORY, demo)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Runs the demo; returns the exit code."""
    demo = Demo(arguments.directory.absolute(), arguments.seconds)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: demo.stop.set())
    try:
        return demo.run()
    except Stopped as stopped:
        print(f"\n{stopped}")
        return 130
