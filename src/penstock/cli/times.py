"""Points in time, and durations, as people write them on a command line."""

from __future__ import annotations

import itertools
import re
import time
from datetime import UTC, datetime

from penstock.errors import UsageError

UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
SPOKEN_UNITS_MS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000))
DURATION = re.compile(r"(\d+)(ms|s|m|h|d)", re.ASCII)
AGO = re.compile(r"-?(\d+)(ms|s|m|h|d)")
EPOCH_MS_MAX = 1 << 62
FORMS = "2026-01-31T08:00Z, 2026-01-31, milliseconds since 1970, now, or 15m for 15 minutes ago (s, m, h, d)"


def timestamp_ms(text: str, option: str, now_ms: int | None = None) -> int:
    """Milliseconds since 1970 of a time; without a zone it is UTC. Raises UsageError naming the option."""
    now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    if text == "now":
        return now_ms
    if text.isdecimal() and int(text) < EPOCH_MS_MAX:
        return int(text)
    ago = AGO.fullmatch(text)
    if ago is not None:
        return max(0, now_ms - int(ago[1]) * UNITS_MS[ago[2]])
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{option} {text}: it must be like {FORMS}") from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def duration_ms(text: str, option: str) -> int:
    """Milliseconds of a duration such as `15m`. Raises UsageError naming the option."""
    found = DURATION.fullmatch(text)
    if found is None:
        raise UsageError(f"{option} {text}: it must be a duration such as 500ms, 30s, 15m, 2h or 1d")
    return int(found[1]) * UNITS_MS[found[2]]


def duration_text(milliseconds: int) -> str:
    """A duration as people say it, in its two largest units: `2 h 5 min`, `3.2 s`."""
    if milliseconds < 0:
        return "-"
    if milliseconds < UNITS_MS["m"]:
        return f"{milliseconds / 1000:.1f} s"
    for (name, unit), (lower_name, lower) in itertools.pairwise(SPOKEN_UNITS_MS):
        if milliseconds >= unit:
            rest = milliseconds % unit // lower
            return f"{milliseconds // unit} {name}" + (f" {rest} {lower_name}" if rest else "")
    raise AssertionError(milliseconds)


def timestamp_text(timestamp: int) -> str:
    """A time in UTC with milliseconds; -1 is none."""
    if timestamp < 0:
        return "-"
    seconds, milliseconds = divmod(timestamp, 1000)
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{milliseconds:03d}Z"
    except (ValueError, OverflowError, OSError):
        return str(timestamp)  # a producer may have given any number
