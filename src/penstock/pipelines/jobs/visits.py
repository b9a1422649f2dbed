"""Visits out of requests, as a stateful processor: `transformWithState` of Spark 4.

The state of a visitor are the visits that may still grow: one, or several when events come late. A timer of each ends
it when the watermark says that nothing can join it any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

VISIT = """visitor string, began timestamp, ended timestamp, seconds double, requests bigint, entry string, exit string,
    country string"""
STATE = "began_ms bigint, ended_ms bigint, requests bigint, entry string, exit string, country string"


@dataclass(frozen=True, slots=True)
class Visit:
    """A visit so far."""

    began_ms: int
    ended_ms: int
    requests: int
    entry: str
    exit: str
    country: str | None

    def and_then(self, other: Visit) -> Visit:
        """Merges two visits into one."""
        first, last = (self, other) if self.began_ms <= other.began_ms else (other, self)
        end = self if self.ended_ms > other.ended_ms else other
        ended_ms = max(self.ended_ms, other.ended_ms)
        requests = self.requests + other.requests
        return replace(
            first, ended_ms=ended_ms, requests=requests, exit=end.exit, country=first.country or last.country
        )


def joined(visits: list[Visit], gap_ms: int) -> list[Visit]:
    """Visits of one visitor in order of time, those with no whole gap between them made one."""
    found: list[Visit] = []
    for visit in sorted(visits, key=lambda each: (each.began_ms, each.ended_ms)):
        if found and visit.began_ms - found[-1].ended_ms < gap_ms:
            found[-1] = found[-1].and_then(visit)
        else:
            found.append(visit)
    return found


class Visits(StatefulProcessor):
    """Gives a visit once `gap_ms` of event time have passed since its last request."""

    def __init__(self, gap_ms: int) -> None:
        self.gap_ms = gap_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.going_on = handle.getListState("visits", STATE)

    def handleInputRows(  # noqa: N802 Spark's name
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        before = [Visit(*state) for state in self.going_on.get()]
        visits = list(before)
        for some in rows:
            times = some["time"].astype("int64") // _unit(some["time"])
            visits += [
                Visit(at, at, 1, page, page, country)
                for at, page, country in zip(times.tolist(), some["page"], some["country"], strict=True)
            ]
        after = joined(visits, self.gap_ms)
        known, wanted = ({visit.ended_ms + self.gap_ms for visit in each} for each in (before, after))
        for timer in sorted(known - wanted):
            self.handle.deleteTimer(timer)
        for timer in sorted(wanted - known):
            self.handle.registerTimer(timer)
        self.going_on.put([astuple(visit) for visit in after])
        return iter(())

    def handleExpiredTimer(  # noqa: N802 Spark's name
        self,
        key: Any,
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        now_ms = expiredTimerInfo.getExpiryTimeInMs()
        visits = [Visit(*state) for state in self.going_on.get()]
        ended = [visit for visit in visits if visit.ended_ms + self.gap_ms <= now_ms]
        if left := [visit for visit in visits if visit not in ended]:
            self.going_on.put([astuple(visit) for visit in left])
        else:
            self.going_on.clear()
        if ended:
            yield frame(key[0], ended)

    def close(self) -> None:
        pass


def frame(visitor: str, visits: list[Visit]) -> pd.DataFrame:
    import pandas as pd

    rows = []
    for v in visits:
        times = (moment(v.began_ms), moment(v.ended_ms), (v.ended_ms - v.began_ms) / 1000)
        rows.append((visitor, *times, v.requests, v.entry, v.exit, v.country))
    return pd.DataFrame(rows, columns=["visitor", "began", "ended", "seconds", "requests", "entry", "exit", "country"])


def moment(time_ms: int) -> datetime:
    """Milliseconds since 1970 as a time."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).replace(tzinfo=None)


def _unit(times: Any) -> int:
    """How many of a pandas column's units a millisecond has."""
    return {"ns": 1_000_000, "us": 1_000, "ms": 1}[times.dt.unit]
