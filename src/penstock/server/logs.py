"""Structured logs: one event a line, readable on a terminal, or as JSON for programs.

    2026-01-31 10:02:11.371 INFO  server.lane: slow append, the lane takes over directory=0 elapsed_ms=31

Built on the standard `logging`: a host process that embeds a broker sees the same lines through its own handlers, and
nothing is set up unless `configure` is called, which only a broker process does.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any, TextIO

from penstock.events import Event
from penstock.server.limits import LOG_LINE_MAX_CHARACTERS


class LineFormatter(logging.Formatter):
    """`2026-01-31 10:02:11.371 INFO  server.lane: what key=value`, in local time; a traceback follows on indented
    lines. Nothing that a client has sent can begin a line or control a terminal.
    """

    def format(self, record: logging.LogRecord) -> str:
        clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        name = record.name.removeprefix("penstock.")
        message = escaped(record.getMessage())
        line = f"{clock}.{int(record.msecs):03d} {record.levelname:<5} {name}: {message}"
        trace = self.formatException(record.exc_info).split("\n") if record.exc_info else ()
        return "\n".join([line, *(f"    {escaped(each)}" for each in trace)])


def escaped(text: str) -> str:
    """The text with unprintable characters escaped as in Python (`\n`, `\x1b`); a long text is cut."""
    if len(text) > LOG_LINE_MAX_CHARACTERS:
        text = f"{text[:LOG_LINE_MAX_CHARACTERS]}... ({len(text)} characters)"
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


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
    """Sends the broker's events to `stream` (stderr by default). For a broker's own process only.

    No line names the code, the thread or the process that it comes from, so nobody looks for them: a fifth of what a
    line costs, as the documentation of `logging` advises under "Optimization".
    """
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if json_lines else LineFormatter())
    root = logging.getLogger("penstock")
    root.handlers[:] = [handler]
    root.setLevel(level)
    root.propagate = False
