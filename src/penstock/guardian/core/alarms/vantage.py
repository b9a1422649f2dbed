"""Another look at brokers that their cluster misses: Guardian calls each by itself, or asks a second broker about it.

A call to the broker's last known address counts: whoever answers is alive; whoever refuses the connection, or is
silent, is dead. A broker that Guardian has never seen alive has no address; then the metadata of a living broker other
than the controller counts, which has the list of the living from its own replica of the metadata log. A reason that
says nothing of the broker, such as a login that fails, counts for neither.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from penstock.guardian.core.alarms.census import Census
from penstock.guardian.core.alarms.silence import proves_death
from penstock.guardian.core.limits import GUARDIAN_DEPARTED_MAX, GUARDIAN_PINGS_MAX
from penstock.guardian.core.reach import Reach
from penstock.guardian.core.sight import ClusterSight, Contact
from penstock.guardian.core.state import Cluster
from penstock.protocol.message import Message
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.metadata_request import MetadataRequest
from penstock.protocol.messages.metadata_response import MetadataResponse
from penstock.records.wall import WallTime

CHANNEL = "ping"
PING_EVERY_MS = 2_000
TIMEOUT_MS = 3_000


class Vantage:
    """See the module's head: the calls about one cluster."""

    def __init__(self, reach: Reach, wall: WallTime) -> None:
        self._reach = reach
        self._wall = wall
        self._under_way: dict[int, None] = {}
        self._asked_ms: dict[int, int] = {}

    def look(self, cluster: Cluster, seen: ClusterSight, census: Census, now_ms: int) -> None:
        """Notes where brokers are as long as they live, and calls those that are missing."""
        seen.departed.update(seen.brokers)
        self._forget(seen, census)
        for broker in [each for each in seen.contacts if each not in census.missing]:
            del seen.contacts[broker]
        for broker in sorted(census.missing):
            if len(self._under_way) >= GUARDIAN_PINGS_MAX:
                return
            asked_ms = self._asked_ms.get(broker)
            if broker in seen.brokers or broker in self._under_way:
                continue
            if asked_ms is None or now_ms - asked_ms >= PING_EVERY_MS:
                self._asked_ms[broker] = now_ms
                self._ask(cluster, seen, broker, now_ms)

    def _forget(self, seen: ClusterSight, census: Census) -> None:
        """Brokers that nobody misses are forgotten where there are very many."""
        for broker in [each for each in self._asked_ms if each not in census.missing]:
            del self._asked_ms[broker]
        over = len(seen.departed) - GUARDIAN_DEPARTED_MAX
        if over > 0:
            needed = (seen.brokers, census.brokers, census.missing)
            unneeded = [each for each in seen.departed if not any(each in some for some in needed)]
            for broker in unneeded[:over]:
                del seen.departed[broker]

    def _ask(self, cluster: Cluster, seen: ClusterSight, broker: int, now_ms: int) -> None:
        ended: Callable[[Message | None, str | None, int], None]
        if broker in seen.departed:
            request: Message = ApiVersionsRequest()
            asked, ended = broker, partial(self._called, seen, broker)
        else:
            others = [each for each in sorted(seen.brokers) if each != seen.controller]
            if not others:
                return
            asked = others[(now_ms // PING_EVERY_MS) % len(others)]
            request, ended = MetadataRequest(topics=[]), partial(self._told, seen, (broker, asked))
        self._under_way[broker] = None
        self._reach.ask(cluster, asked, request, ended, now_ms, timeout_ms=TIMEOUT_MS, channel=CHANNEL)

    def _called(self, seen: ClusterSight, broker: int, answer: Message | None, reason: str | None, now_ms: int) -> None:
        """The broker itself has answered, or not."""
        self._under_way.pop(broker, None)
        if answer is not None:
            self._note(seen, broker, True, f"broker {broker} answers Guardian", now_ms)
        elif proves_death(reason or ""):
            self._note(seen, broker, False, f"broker {broker} does not answer Guardian: {reason}", now_ms)
        else:
            self._note(seen, broker, None, f"broker {broker} cannot be asked: {reason}", now_ms)

    def _told(
        self, seen: ClusterSight, about: tuple[int, int], answer: Message | None, reason: str | None, now_ms: int
    ) -> None:
        """A second broker has told who is there, or not; `about`: the missing broker, and who was asked."""
        broker, asked = about
        self._under_way.pop(broker, None)
        if not isinstance(answer, MetadataResponse):
            self._note(seen, broker, None, f"broker {asked} does not tell about it: {reason}", now_ms)
            return
        alive = any(each.node_id == broker for each in answer.brokers)
        said = "names it among the living" if alive else "does not name it among the living either"
        self._note(seen, broker, alive, f"broker {asked} {said}", now_ms)

    def _note(self, seen: ClusterSight, broker: int, alive: bool | None, said: str, now_ms: int) -> None:
        seen.contacts[broker] = Contact(self._wall.at(now_ms), alive, said)
