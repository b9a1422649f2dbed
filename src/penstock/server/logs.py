"""Structured logs: one event a line, which a person reads on a terminal and a program reads as JSON.

    logger = events("server.lane")
    logger.info("slow append, the lane takes over", directory=0, elapsed_ms=31)

    10:02:11.371 INFO  server.lane: slow append, the lane takes over directory=0 elapsed_ms=31

Built on the standard `logging`: a host process that embeds a broker sees the same lines through its own handlers, and
nothing is set up unless `configure` is called, which only a broker process does.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Mapping
from typing import Any, TextIO

NEEDS_QUOTES = frozenset(' "=\n\t')


class Event:
    """What happened and its fields; printed as `what key=value ...`."""

    __slots__ = ("fields", "what")

    def __init__(self, what: str, fields: Mapping[str, Any]) -> None:
        self.what = what
        self.fields = fields

    def __str__(self) -> str:
        return " ".join([self.what, *(f"{name}={value_text(value)}" for name, value in self.fields.items())])


class Events:
    """Logs events under one name."""

    __slots__ = ("_logger",)

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def debug(self, what: str, **fields: Any) -> None:
        """What only someone who hunts a fault wants to see."""
        self._log(logging.DEBUG, what, fields)

    def info(self, what: str, **fields: Any) -> None:
        """What an operator may want to know later."""
        self._log(logging.INFO, what, fields)

    def warning(self, what: str, **fields: Any) -> None:
        """What an operator should look at."""
        self._log(logging.WARNING, what, fields)

    def error(self, what: str, *, trace: bool = False, **fields: Any) -> None:
        """What failed. `trace` adds the traceback of the exception being handled."""
        self._log(logging.ERROR, what, fields, trace=trace)

    def _log(self, level: int, what: str, fields: Mapping[str, Any], *, trace: bool = False) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, Event(what, fields), exc_info=trace, stacklevel=3)


def events(name: str) -> Events:
    """The event log of one part, `name` without the leading `penstock.`."""
    return Events(logging.getLogger(f"penstock.{name}"))


def value_text(value: Any) -> str:
    """A value as it stands after `key=`: quoted when it would not read as one word."""
    text = str(value)
    return json.dumps(text) if not text or not NEEDS_QUOTES.isdisjoint(text) else text


class LineFormatter(logging.Formatter):
    """`10:02:11.371 INFO  server.lane: what key=value`; a traceback follows on lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        name = record.name.removeprefix("penstock.")
        line = f"{clock}.{int(record.msecs):03d} {record.levelname:<5} {name}: {record.getMessage()}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, event, then the event's own fields."""

    def format(self, record: logging.LogRecord) -> str:
        time_text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
        line: dict[str, Any] = {"time": time_text, "level": record.levelname, "logger": record.name}
        if isinstance(record.msg, Event):
            line |= {"event": record.msg.what, **record.msg.fields}
        else:
            line["event"] = record.getMessage()
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def configure(*, json_lines: bool = False, level: str = "INFO", stream: TextIO | None = None) -> None:
    """Sends the broker's events to `stream` (stderr by default). For a broker's own process only."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if json_lines else LineFormatter())
    root = logging.getLogger("penstock")
    root.handlers[:] = [handler]
    root.setLevel(level)
    root.propagate = False
