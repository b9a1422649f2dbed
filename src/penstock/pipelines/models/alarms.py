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
        self._known: set[tuple[str, str]] = set()

    def hear(self, results: Sequence[Result]) -> None:
        """Tells of what has begun to fail. Never raises: an alarm that cannot be given must not stop the pipeline."""
        bad = [each for each in results if each.status in BAD]
        new = [each for each in bad if (each.step, each.test) not in self._known]
        looked_at = {(each.step, each.test) for each in results}
        self._known = (self._known - looked_at) | {(each.step, each.test) for each in bad}
        if not new:
            return
        texts = [json.dumps({**asdict(each), "time": each.time.isoformat()}, ensure_ascii=False) for each in new]
        try:
            if self._alarm.command:
                self._run(texts)
            if self._alarm.topic is not None:
                self._send(self._alarm.topic, new, texts)
        except Exception as error:
            text = str(error) if isinstance(error, PenstockError) else one_line(error)
            self._context.told(f"the alarm could not be given: {text}")

    def _run(self, texts: Sequence[str]) -> None:
        for text in texts:
            done = subprocess.run(
                self._alarm.command, input=text + "\n", text=True, timeout=ALARM_TIMEOUT_S, check=False,
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            )  # fmt: skip
            if done.returncode:
                said = done.stderr.strip().splitlines()
                why = f": {said[-1]}" if said else ""
                raise PenstockError(f"{self._alarm.command[0]} ended with {done.returncode}{why}")

    def _send(self, topic: str, results: Sequence[Result], texts: Sequence[str]) -> None:
        rows = [(f"{each.step} {each.test}", text) for each, text in zip(results, texts, strict=True)]
        records = self._session.createDataFrame(rows, "key string, value string")
        options = {**self._context.source(), "topic": topic}
        records.write.format("penstock").options(**options).mode("append").save()
