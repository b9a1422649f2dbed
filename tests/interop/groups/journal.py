"""What the members of a group do, told by themselves as it happens, and waiting for it.

A member tells of events: `assigned`, `revoked` and `lost` are its client's callbacks with the partitions they were
given, `read` the records that it has processed, `closed` its end, `failed` why it ended otherwise. Members are threads
and processes; the journal is what they share.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

TIMEOUT_S = 60.0

Partition = tuple[str, int]


class Event(NamedTuple):
    """One event; `places` are partitions, for `read` with an offset each."""

    member: str
    kind: str
    places: tuple[tuple[str, ...], ...]


class Journal:
    """The events of one group in the order in which they were told."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.owned: dict[str, set[Partition]] = {}
        self.reads: Counter[tuple[str, int, int]] = Counter()
        self._told = threading.Condition()

    def tell(self, member: str, kind: str, places: Iterable[str] = ()) -> None:
        """Notes an event; `places` as `topic:partition` or `topic:partition:offset`, for `failed` what it says."""
        event = Event(
            member, kind, tuple((place,) if kind == "failed" else tuple(place.split(":")) for place in places)
        )
        with self._told:
            self.events.append(event)
            self._follow(event)
            self._told.notify_all()

    def _follow(self, event: Event) -> None:
        if event.kind == "read":
            self.reads.update((topic, int(index), int(offset)) for topic, index, offset in event.places)
            return
        if event.kind in {"closed", "failed"}:
            self.owned.pop(event.member, None)
            return
        partitions = {(topic, int(index)) for topic, index in event.places}
        owned = self.owned.setdefault(event.member, set())
        if event.kind == "assigned":
            owned |= partitions
        else:
            assert event.kind in {"revoked", "lost"}, event.kind
            owned -= partitions

    def wait(self, condition: Callable[[], bool], wanted: str) -> None:
        """Returns when `condition` holds; fails at the first member's failure, or when it takes too long."""
        with self._told:
            self._told.wait_for(lambda: condition() or self._failure() is not None, TIMEOUT_S)
            assert self._failure() is None, self._failure()
            assert condition(), f"waited for {wanted}; {self}"

    def wait_shared(self, topics: dict[str, int], members: Iterable[str]) -> None:
        """Waits until every partition of the topics has one owner, each of these members has its part, nobody else any.

        Parts are fair: members have as many partitions as each other, or one more.
        """
        wanted = sorted(members)
        everything = sorted((topic, index) for topic, count in topics.items() for index in range(count))

        def shared() -> bool:
            parts = [len(part) for part in self.owned.values()]
            owned = sorted(partition for part in self.owned.values() for partition in part)
            return sorted(self.owned) == wanted and owned == everything and max(parts) - min(parts) <= 1

        self.wait(shared, f"{topics} to be shared by {wanted}")

    def wait_read(self, records: Iterable[tuple[str, int, int]]) -> None:
        """Waits until each of these records has been read."""
        wanted = set(records)
        self.wait(lambda: wanted <= self.reads.keys(), f"{len(wanted)} records to be read")

    def callbacks(self, member: str) -> str:
        """The callbacks of a member: `+3` for three partitions assigned, `-3` revoked, `!3` lost."""
        signs = {"assigned": "+", "revoked": "-", "lost": "!"}
        called = [event for event in self.events if event.member == member and event.kind in signs]
        return " ".join(f"{signs[event.kind]}{len(event.places)}" for event in called)

    def changes(self, member: str) -> str:
        """As `callbacks`, without the empty ones; what is assigned one after the other counts as one."""
        steps: list[tuple[str, int]] = []
        for step in self.callbacks(member).split():
            sign, count = step[0], int(step[1:])
            if count and steps and (steps[-1][0], sign) == ("+", "+"):
                steps[-1] = ("+", steps[-1][1] + count)
            elif count:
                steps.append((sign, count))
        return " ".join(f"{sign}{count}" for sign, count in steps)

    def _failure(self) -> str | None:
        failures = (event for event in self.events if event.kind == "failed")
        return next((f"{event.member} failed: {event.places}" for event in failures), None)

    def __str__(self) -> str:
        told = [f"{event.member} {event.kind} {len(event.places)}" for event in self.events[-40:]]
        return f"owned: {self.owned}; read: {len(self.reads)}; told: {told}"
