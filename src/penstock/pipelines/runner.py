"""Runs pipelines: each in a thread of its own, all in one Spark session; one that fails is begun anew, by its policy.

A pipeline's thread calls its job, then drives what the job returned: steps, one after the other, and streaming queries,
which Spark drives and the thread looks after. Told to stop, it ends the step or the batch that it is in, and no other.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from penstock.errors import ConfigError, PenstockError
from penstock.pipelines import monitor as states
from penstock.pipelines.context import Context, DeadLetters
from penstock.pipelines.dead_letters import DeadLetterTable, DeadLetterTopic
from penstock.pipelines.declaration import Pipeline
from penstock.pipelines.limits import PIPELINE_POLL_MS
from penstock.pipelines.models.step import TestsError
from penstock.pipelines.monitor import Monitor
from penstock.pipelines.queries import Queries, wait
from penstock.pipelines.step import Figures, Step
from penstock.spark.lake.records import LakeConflictError
from penstock.spark.load.load import Stop
from penstock.spark.read.plan import DataLossError
from penstock.spark.session import enter_thread, one_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MISTAKES = (AssertionError, TypeError, NameError, AttributeError)
FINAL = (ConfigError, LakeConflictError, DataLossError, TestsError, *MISTAKES)
"""What another start would meet again: wrong settings, another copy at work, lost data, failed tests, a mistake."""


def epoch_ms() -> int:
    return time.time_ns() // 1_000_000


class Switch(Stop, Protocol):
    """A Stop that can be set here."""

    def set(self) -> None: ...


@dataclass(slots=True)
class Running:
    """One running pipeline.

    Args:
        pipeline: what was declared.
        monitor: gets its states and figures.
        stop: what ends it.
        once: work until caught up.
        said: gets a line for a person, when it fails and when it starts again.
    """

    pipeline: Pipeline
    monitor: Monitor
    stop: Stop
    once: bool = False
    said: Callable[[str], None] = lambda _: None
    failures: int = field(default=0, init=False)

    def run(self, spark: SparkSession) -> None:
        """Until it is done, told to stop, or has failed too often; the monitor's state says which."""
        enter_thread(spark, self.pipeline.name)
        while True:
            began = time.monotonic()
            try:
                self._work(spark)
            except Exception as error:  # whatever a user's job raises
                lasted_ms = (time.monotonic() - began) * 1000
                if self._gives_up(error, lasted_ms):
                    return
            else:
                self.monitor.enters(states.STOPPED if self.stop.is_set() else states.DONE)
                return

    def _gives_up(self, error: Exception, lasted_ms: float) -> bool:
        """Notes a failure; waits, or says that there is no further start."""
        restart = self.pipeline.restart
        self.failures = 1 if lasted_ms >= restart.healthy_after_ms else self.failures + 1
        text = told(error)
        self.monitor.failed(text, epoch_ms())
        if self.stop.is_set() or isinstance(error, FINAL) or self.failures > restart.attempts:
            self.monitor.enters(states.FAILED)
            again = "" if isinstance(error, FINAL) or not restart.attempts else f" (after {self.failures} in a row)"
            self.said(f"{self.pipeline.name}: failed{again}: {text}")
            return True
        wait_ms = restart.wait_ms(self.failures)
        self.said(f"{self.pipeline.name}: {text}; starts again in {wait_ms / 1000:g} s")
        self.monitor.enters(states.WAITING)
        if self.stop.wait(wait_ms / 1000) or self.stop.is_set():
            self.monitor.enters(states.STOPPED)
            return True
        self.monitor.restarted()
        return False

    def _work(self, spark: SparkSession) -> None:
        """One run of the job, from its start to its end."""
        self.monitor.enters(states.STARTING)
        context = self.context(spark)
        try:
            parts = self.pipeline.job.run(context) or ()
        except BaseException:
            context.stop_queries()  # those that it started before it failed
            raise
        streams: list[Any] = [part for part in parts if hasattr(part, "recentProgress")]
        steps: list[Any] = [part for part in parts if not hasattr(part, "recentProgress")]
        queries = Queries(
            streams,
            self.monitor,
            self.pipeline.bootstrap,
            security=self.pipeline.security,
            in_groups=self.pipeline.commits_offsets,
        )
        self.monitor.enters(states.RUNNING)
        try:
            self._drive(steps, queries)
        except BaseException:
            with suppress(Exception):  # what failed first is what is told
                queries.stop(at_once=True)
            for step in steps:
                with suppress(Exception):
                    step.close()
            raise
        with ExitStack() as closing:
            for step in steps:
                closing.callback(step.close)
            queries.stop(at_once=False)

    def _drive(self, steps: Sequence[Step], queries: Queries) -> None:
        """Steps when they are due, and a look at the queries; until told to stop, or nothing is left to do."""
        due = dict.fromkeys(range(len(steps)), 0.0)
        while not self.stop.is_set():
            for number in [n for n, at in due.items() if at <= time.monotonic()]:
                if self.stop.is_set():
                    return
                began = time.monotonic()
                figures = steps[number].step()
                self._heard(number, figures)
                if figures is not None and figures.lag:
                    due[number] = began
                elif self.once:
                    del due[number]
                else:
                    due[number] = began + steps[number].interval_ms / 1000
            working = queries.look(epoch_ms(), once=self.once)
            if not due and not working:
                return
            look = time.monotonic() + PIPELINE_POLL_MS / 1000 if working else float("inf")
            wait(self.stop, min([look, *due.values()]))

    def _heard(self, number: int, figures: Figures | None) -> None:
        if figures is None:
            self.monitor.lags(f"step {number}", 0)
        else:
            self.monitor.did(f"step {number}", figures, epoch_ms())

    def context(self, spark: SparkSession) -> Context:
        """The context that the job gets."""
        pipeline = self.pipeline
        pipeline.directory.mkdir(parents=True, exist_ok=True)
        return Context(
            spark=spark,
            name=pipeline.name,
            bootstrap=pipeline.bootstrap,
            options=pipeline.options,
            directory=pipeline.directory,
            stop=self.stop,
            kafka=pipeline.kafka,
            security=pipeline.security,
            interval_ms=pipeline.interval_ms,
            once=self.once,
            checkpoints=pipeline.checkpoints,
            dead_letter_sink=sink_of(pipeline),
            listener=lambda figures: self.monitor.did("job", figures, epoch_ms()),
            told=self._troubled,
        )

    def _troubled(self, text: str) -> None:
        """The pipeline goes on, and a person should know of this."""
        self.monitor.failed(text, epoch_ms())
        self.said(f"{self.pipeline.name}: {text}")


def sink_of(pipeline: Pipeline) -> DeadLetters | None:
    """Where the pipeline declares that dead letters go."""
    if pipeline.dead_letter_topic:
        return DeadLetterTopic(pipeline.dead_letter_topic)
    return DeadLetterTable(pipeline.dead_letter_table) if pipeline.dead_letter_table else None


def told(error: Exception) -> str:
    if isinstance(error, PenstockError):
        return str(error)
    line = one_line(error)
    return (
        line
        if type(error).__name__ in line or "Exception" in type(error).__name__
        else f"{type(error).__name__}: {line}"
    )


class Fleet:
    """Several pipelines in one session.

    Args:
        running: the pipelines; each has its own thread while the fleet runs.
        stop: what ends all.
        fail_fast: one that fails for good ends the others too.
    """

    def __init__(self, running: Sequence[Running], stop: Switch, *, fail_fast: bool = False) -> None:
        self.running = running
        self._stop = stop
        self._fail_fast = fail_fast
        self._threads: list[threading.Thread] = []

    def start(self, spark: SparkSession) -> None:
        """Starts a thread a pipeline."""
        for each in self.running:
            thread = threading.Thread(
                target=each.run, args=(spark,), name=f"pipeline {each.pipeline.name}", daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def working(self) -> bool:
        """Whether any is at work; ends the others where one has failed and that is wanted."""
        failed = any(each.monitor.state == states.FAILED for each in self.running)
        if failed and self._fail_fast and not self._stop.is_set():
            self._stop.set()
        return any(thread.is_alive() for thread in self._threads)

    def join(self) -> bool:
        """Waits for all; whether none has failed."""
        for thread in self._threads:
            thread.join()
        return all(each.monitor.state != states.FAILED for each in self.running)
