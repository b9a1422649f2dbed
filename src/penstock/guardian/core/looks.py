"""Looks at a cluster: things that are done again and again, each at its own time. `Looks` is a heap of them.

A look that is still under way when it is due is left out once, so there is never more than one of it: however slow a
broker is, it has no more than so many calls.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from heapq import heappop, heappush

from penstock.guardian.core.reach import Ended, Reach
from penstock.guardian.core.sight import ClusterSight, of_broker
from penstock.guardian.core.state import Cluster
from penstock.protocol.message import Message
from penstock.records.wall import WallTime

CHANNEL = "look"
"""What is only looked at has connections of its own: nothing that is done waits behind it."""
TIMEOUT_MS = 5_000


class Watched:
    """What all looks at one cluster share: how it is asked, and where it is noted what was seen of it, or why not.

    Attributes: `cluster`, as it is registered now; `seen`, what is filled; `do`, which adds long work.
    """

    def __init__(
        self,
        cluster: Cluster,
        seen: ClusterSight,
        reach: Reach,
        wall: WallTime,
        do: Callable[[Iterator[None]], None],
    ) -> None:
        self.cluster = cluster
        self.seen = seen
        self.do = do
        self._reach = reach
        self._wall = wall

    def ask(self, broker: int, request: Message, ended: Ended, now_ms: int) -> None:
        """Asks a broker, see `guardian.core.reach`."""
        self._reach.ask(self.cluster, broker, request, ended, now_ms, timeout_ms=TIMEOUT_MS, channel=CHANNEL)

    def wall_ms(self, now_ms: int) -> int:
        """The wall time."""
        return self._wall.at(now_ms)

    def saw(self, part: str, now_ms: int, doubts: str | None = None) -> None:
        """A part has been seen, perhaps without what is not believed of it."""
        self.seen.seen_ms[part] = self._wall.at(now_ms)
        self.tell(part, doubts)

    def saw_all(self, part: str) -> None:
        """What brokers tell has been seen whole since the one that was looked at longest ago was."""
        seen = self.seen
        times_ms = [seen.seen_ms.get(of_broker(part, broker)) for broker in seen.brokers]
        if times_ms and None not in times_ms:
            seen.seen_ms[part] = min(each for each in times_ms if each is not None)

    def tell(self, part: str, failure: str | None) -> None:
        """Why a part was not seen; None: there is nothing to say any more."""
        if failure is None:
            self.seen.failures.pop(part, None)
        else:
            self.seen.failures[part] = failure


class Look(ABC):
    """One thing to be done every `every_ms`.

    Attributes: `gone`, it is not done any more, and what comes of it yet is not wanted. `under_way`: has begun and is
    not over.
    """

    def __init__(self, watched: Watched, part: str, every_ms: int) -> None:
        self.watched = watched
        self.part = part
        self.every_ms = every_ms
        self.gone = False
        self.under_way = False

    @abstractmethod
    def begin(self, now_ms: int) -> None:
        """Does it; sets `under_way` to False when it is over."""

    def failed(self, reason: str) -> None:
        """Notes why nothing was seen; the look is over."""
        self.under_way = False
        if not self.gone:
            self.watched.tell(self.part, reason)

    def done(self, work: Iterator[None]) -> Iterator[None]:
        """Long work, after which the look is over, however it ends; it ends early when the look is gone."""
        try:
            for _ in work:
                yield
                if self.gone:
                    return
        finally:
            self.under_way = False


class Looks:
    """See the module's head."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Look]] = []
        self._sequence = 0

    def add(self, look: Look, due_ms: int) -> None:
        """A look that is due at a time, and every so often from then on."""
        self._sequence += 1
        heappush(self._heap, (due_ms, self._sequence, look))

    def proceed(self, now_ms: int) -> None:
        """Begins what is due. What a look raises is the caller's; the look is due again all the same."""
        while self._heap and self._heap[0][0] <= now_ms:
            _, _, look = heappop(self._heap)
            if look.gone:
                continue
            self.add(look, now_ms + look.every_ms)
            if not look.under_way:
                look.under_way = True
                look.begin(now_ms)

    def next_due_ms(self) -> int | None:
        """When something is due."""
        while self._heap and self._heap[0][2].gone:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def clear(self) -> None:
        """Forgets all of them; they are gone."""
        for _, _, look in self._heap:
            look.gone = True
        self._heap.clear()
