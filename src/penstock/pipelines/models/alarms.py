"""Tells of failures: to a command, as JSON on its standard input, or to a topic, as a record a failure."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from penstock.errors import PenstockError
from penstock.pipelines.limits import ALARM_TIMEOUT_S
from penstock.pipelines.models.project import Alarm
from penstock.pipelines.models.results import BAD, Result
from penstock.spark.session import one_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.pipelines.context import Context

Failure = tuple[str, str]
"""A step and its test."""


class Alarms:
    """Of one pipeline's process: a failure that lasts is told once, and again when it has been gone.

    Args:
        alarm: who is told.
        context: of the pipeline; gets a line when nobody could be told.
        session: writes to the topic.
    """

    def __init__(self, alarm: Alarm, context: Context, session: SparkSession) -> None:
        self._alarm = alarm
        self._context = context
        self._session = session
        self._told: dict[str, set[Failure]] = {"command": set(), "topic": set()}

    def hear(self, results: Sequence[Result]) -> None:
        """Tells of what has begun to fail, or could not be told before. Never raises: an alarm that cannot be given
        must not stop the pipeline."""
        bad = {(each.step, each.test): each for each in results if each.status in BAD}
        gone = {(each.step, each.test) for each in results} - bad.keys()
        ways = {"command": (self._run, self._alarm.command), "topic": (self._send, self._alarm.topic)}
        for way, (tell, wanted) in ways.items():
            told = self._told[way]
            told -= gone
            new = [each for failure, each in bad.items() if failure not in told]
            if not wanted or not new:
                continue
            try:
                tell(new, told)
            except Exception as error:
                text = str(error) if isinstance(error, PenstockError) else one_line(error)
                self._context.told(f"the alarm could not be given: {text}")

    def _run(self, results: Sequence[Result], told: set[Failure]) -> None:
        for each in results:
            done = subprocess.run(
                self._alarm.command, input=_text(each) + "\n", text=True, timeout=ALARM_TIMEOUT_S, check=False,
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            )  # fmt: skip
            if done.returncode:
                said = done.stderr.strip().splitlines()
                why = f": {said[-1]}" if said else ""
                raise PenstockError(f"{self._alarm.command[0]} ended with {done.returncode}{why}")
            told.add((each.step, each.test))

    def _send(self, results: Sequence[Result], told: set[Failure]) -> None:
        rows = [(f"{each.step} {each.test}", _text(each)) for each in results]
        records = self._session.createDataFrame(rows, "key string, value string")
        options = {**self._context.source(), "topic": str(self._alarm.topic)}
        records.write.format("penstock").options(**options).mode("append").save()
        told.update((each.step, each.test) for each in results)


def _text(result: Result) -> str:
    return json.dumps({**asdict(result), "time": result.time.isoformat()}, ensure_ascii=False)
