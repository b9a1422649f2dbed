"""When a cluster is to be balanced, and when to leave it alone again: a state machine over successive looks at shares.

It begins when a broker or disk has been out of 1.2 of its share (more than 1.2 times, or less than 1/1.2) in three
windows, one after the other, and ends when all are within 1.1. So one busy hour moves nothing, and what has been begun
is not given up at the edge where it began. A window in which something was not measured is not held against it: its
count begins anew, as missing telemetry moves nothing. And a replica that has moved stays for a day.

All is a small value: `Watch.document` is JSON, and `Watch.of` reads it again, so it goes through a log from one leader
to the next. Times are given, in ms.

The service does not call it yet: no balance begins by itself, see `docs/explanation/how-guardian-plans.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any

from penstock.guardian.plan.rules import Moved


@dataclass(frozen=True, slots=True)
class Pace:
    """How soon a balance begins and ends, and how often a replica may move.

    Attributes:
        begin, end: how many times its share, or what part of it, something has to have: out of the one to begin, within
            the other to end. windows: how many in a row.
        rest_ms: for how long a replica that has moved stays where it is.
    """

    begin: float = 1.2
    end: float = 1.1
    windows: int = 3
    rest_ms: int = 24 * 3_600_000

    def __post_init__(self) -> None:
        if not 1 <= self.end <= self.begin:
            raise ValueError(f"a balance ends within {self.end:g} and begins out of {self.begin:g}; the first must be "
                             "1 or more, and not above the second")  # fmt: skip
        if self.windows < 1 or self.rest_ms < 0:
            raise ValueError(f"{self.windows} windows and {self.rest_ms} ms; there must be 1 and 0 at least")


Shares = Mapping[str, Iterable[float | None]]
"""By broker or disk, in any words: what it has of each resource, in shares; None or NaN: not known, or it has none."""


@dataclass(frozen=True, slots=True)
class Watch:
    """What is known of the windows so far.

    Attributes:
        window: the number of the last one; -1 before the first. out: in how many windows in a row each place has been
            out of bounds. balancing: whether a balance has begun and has not ended.
        moved: when each replica has moved, by topic, partition, and broker where it is now.
    """

    window: int = -1
    out: Mapping[str, int] = field(default_factory=dict)
    balancing: bool = False
    moved: Mapping[tuple[str, int, int], int] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """The value as JSON has it."""
        moved = [[*replica, at_ms] for replica, at_ms in sorted(self.moved.items())]
        return {"window": self.window, "out": dict(sorted(self.out.items())), "balancing": self.balancing,
                "moved": moved}  # fmt: skip

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Watch:
        """What `document` gave."""
        moved = {(topic, partition, broker): at_ms for topic, partition, broker, at_ms in document["moved"]}
        return cls(document["window"], dict(document["out"]), document["balancing"], moved)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a look has come to.

    Attributes:
        begins, ends: whether a balance begins or ends with it.
        places: while balancing, what is not yet within the narrower bounds; else nothing.
    """

    begins: bool = False
    ends: bool = False
    places: tuple[str, ...] = ()


def look(watch: Watch, pace: Pace, window: int, shares: Shares) -> tuple[Watch, Verdict]:
    """One window later. A window that has been looked at, or that is older, changes nothing; after a gap all counts
    begin anew."""
    if window <= watch.window:
        return watch, Verdict()
    counts = watch.out if window == watch.window + 1 else {}
    out, wide = {}, []
    for place in sorted(shares):
        known = [float(each) for each in shares[place] if each is not None and isfinite(each)]
        if any(is_out(each, pace.begin) for each in known):
            out[place] = min(counts.get(place, 0) + 1, pace.windows)
        if any(is_out(each, pace.end) for each in known):
            wide.append(place)
    measured = any(each is not None and isfinite(each) for row in shares.values() for each in row)
    begins = not watch.balancing and any(count >= pace.windows for count in out.values())
    ends = watch.balancing and measured and not wide
    balancing = (watch.balancing or begins) and not ends
    after = replace(watch, window=window, out=out, balancing=balancing)
    return after, Verdict(begins, ends, tuple(wide) if balancing else ())


def is_out(share: float, bound: float) -> bool:
    """Whether something has more than so many times its share, or less than that part of it."""
    return share > bound or share * bound < 1


def has_moved(watch: Watch, topic: str, partition: int, broker: int, at_ms: int) -> Watch:
    """A replica has come to a broker."""
    return replace(watch, moved={**watch.moved, (topic, partition, broker): at_ms})


def resting(watch: Watch, pace: Pace, now_ms: int) -> tuple[Watch, tuple[Moved, ...]]:
    """The replicas that have moved too lately to move again, as rules have them; the others are forgotten."""
    moved = {each: at_ms for each, at_ms in sorted(watch.moved.items()) if now_ms - at_ms < pace.rest_ms}
    return replace(watch, moved=moved), tuple(Moved(*each) for each in moved)
