"""Events for the log: what happened, and its fields. Every room writes them; only the server decides where they go.

    logger = events("server.lane")
    logger.info("slow append, the lane takes over", directory=0, elapsed_ms=31)

Built on the standard `logging`, which reads no clock and writes nowhere until a process sets it up.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Hashable, Mapping
from typing import Any

NEEDS_QUOTES = frozenset(' "=')


class Event:
    """An event with its fields; printed as `what key=value ...`."""

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
        """Logs a detail that helps to hunt a fault."""
        self._log(logging.DEBUG, what, fields)

    def info(self, what: str, **fields: Any) -> None:
        """Logs an event that an operator may want to know about later."""
        self._log(logging.INFO, what, fields)

    def warning(self, what: str, **fields: Any) -> None:
        """Logs an event that an operator should look at."""
        self._log(logging.WARNING, what, fields)

    def error(self, what: str, *, trace: bool = False, **fields: Any) -> None:
        """Logs a failure. `trace` adds the traceback of the exception being handled."""
        self._log(logging.ERROR, what, fields, trace=trace)

    def _log(self, level: int, what: str, fields: Mapping[str, Any], *, trace: bool = False) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, Event(what, fields), exc_info=trace, stacklevel=3)


class RateLimit:
    """Bounds what the log has of things that come again and again: by key, one in `every_ms`.

    At most `keys_max` keys are remembered; while there are so many, further ones are suppressed.
    """

    __slots__ = ("_every_ms", "_keys_max", "_logged")

    def __init__(self, every_ms: int, keys_max: int) -> None:
        self._every_ms = every_ms
        self._keys_max = keys_max
        self._logged: dict[Hashable, tuple[int, int]] = {}  # when, and how many were suppressed since

    def suppressed(self, key: Hashable, now_ms: int) -> int | None:
        """None if this event should not be logged; else how many were suppressed since the last logged one."""
        known = self._logged.get(key)
        if known is not None and now_ms - known[0] < self._every_ms:
            self._logged[key] = (known[0], known[1] + 1)
            return None
        if known is None and len(self._logged) >= self._keys_max:
            self._logged = {key: last for key, last in self._logged.items() if now_ms - last[0] < self._every_ms}
            if len(self._logged) >= self._keys_max:
                return None
        self._logged[key] = (now_ms, 0)
        return 0 if known is None else known[1]


class LineBudget:
    """Bounds what the log has of things that each deserve a line: so many in a second, and the others are counted."""

    __slots__ = ("_left_out", "_per_s", "_second", "_taken")

    def __init__(self, per_s: int) -> None:
        self._per_s = per_s
        self._second = 0
        self._taken = 0
        self._left_out = 0

    def left_out(self, now_ms: int) -> int | None:
        """None if this event should not be logged; else how many were left out since the last logged one."""
        second = now_ms // 1000
        if second != self._second:
            self._second, self._taken = second, 0
        if self._taken >= self._per_s:
            self._left_out += 1
            return None
        self._taken += 1
        left_out, self._left_out = self._left_out, 0
        return left_out


def events(name: str) -> Events:
    """The event log of one part, `name` without the leading `penstock.`."""
    return Events(logging.getLogger(f"penstock.{name}"))


def value_text(value: Any) -> str:
    """A value as it stands after `key=`: quoted when it would not read as one word."""
    text = str(value)
    plain = text and text.isprintable() and NEEDS_QUOTES.isdisjoint(text)
    return text if plain else json.dumps(text, ensure_ascii=not text.isprintable())
