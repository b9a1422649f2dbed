"""Finds brokers whose process stands still (SIGSTOP, a stalled machine), long before their session ends.

Such a broker keeps all its connections, and its kernel accepts new ones and acknowledges what is sent: only answers are
missing. So are they when the network is at fault, or this node itself, so the active controller judges by both:

- A live broker is heard from every half second: it fetches the metadata log. If it is silent for SUSPECTED_AFTER_MS,
  the controller connects to it PROBES times, at intervals, and asks each time for its ApiVersions. Any answer,
  heartbeat or fetch ends the suspicion.
- Each of these connections must be made, and stay: both ways to the broker work then. One that is not made, or breaks,
  ends the suspicion; a broker that is cut off keeps its session, as before.
- If this node's own timer fires late, it may have been what stood still: all waiting begins anew.

A broker that was silent for a fifth of its session, and at least SILENCE_MIN_MS, while all probes were connected and
none was answered, is fenced. With Kafka's session of 9 s that is after 2,000 ms; the followers of what it led go on
without it. When it goes on it is unfenced by its next heartbeat, as after any other session that has ended.

A listener with TLS gives no such sign, since the connection is made by the process: there the session decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from penstock.protocol.messages.api_versions_request import ApiVersionsRequest

if TYPE_CHECKING:
    from penstock.metadata.image import BrokerRegistration
    from penstock.node.controller import ControllerNode
    from penstock.node.outgoing import Outgoing, Peer
    from penstock.node.timers import TimerWheel
    from penstock.protocol.message import Message

SUSPECTED_AFTER_MS = 750
"""A follower's fetch of the metadata log waits for 500 ms at most."""
PROBES = 3
SILENCE_MIN_MS = 2_000
SILENCES_PER_SESSION = 5
LATE_MS = 100
"""A timer that fires later than this says that this node was busy, or stood still, itself."""
CHANNEL = "frozen"


@dataclass(slots=True, eq=False)
class Suspicion:
    """A broker that is silent: what it was asked, over connections of their own.

    Attributes:
        heard_ms: when it was last heard from. next_ms: when the next probe is sent, or the judgement is due.
    """

    broker_epoch: int
    peer: Peer
    heard_ms: int
    next_ms: int
    channels: list[str] = field(default_factory=list)


class FrozenBrokers:
    """See the module's head.

    Attributes:
        found: how many brokers were found to stand still. last_found: the id of the last one.
    """

    def __init__(
        self,
        node_id: int,
        outgoing: Outgoing,
        timers: TimerWheel,
        peer_of: Callable[[int], Peer | None],
        *,
        session_timeout_ms: int,
        controller: Callable[[], ControllerNode],
    ) -> None:
        self.found = 0
        self.last_found = -1
        self._node_id = node_id
        self._outgoing = outgoing
        self._timers = timers
        self._peer_of = peer_of
        self._controller = controller
        self._silence_ms = max(SILENCE_MIN_MS, session_timeout_ms // SILENCES_PER_SESSION)
        self._interval_ms = (self._silence_ms - SUSPECTED_AFTER_MS) // PROBES
        self._is_needed = self._silence_ms < session_timeout_ms
        self._due_ms: int | None = None
        self._since_ms = 0
        self._answered_ms: dict[int, int] = {}
        self._suspicions: dict[int, Suspicion] = {}

    def begin(self, now_ms: int) -> None:
        """Watches the brokers, if this node is the active controller and there are others. Cheap; called whenever there
        may be another controller or broker.
        """
        if self._due_ms is None and self._is_needed and self._controller().active and self._watched():
            self._since_ms = now_ms
            self._look_at(now_ms + SUSPECTED_AFTER_MS)

    def _watched(self) -> list[BrokerRegistration]:
        brokers = self._controller().state.image.brokers.values()
        return [each for each in brokers if each.active and each.id != self._node_id]

    def _look_at(self, when_ms: int) -> None:
        self._due_ms = when_ms
        self._timers.at(when_ms, self._look, duty=True)

    def _look(self, now_ms: int) -> None:
        """Looks at all brokers, and again when the next one may be silent for too long."""
        late_ms = now_ms - (self._due_ms or now_ms)
        self._due_ms = None
        watched = self._watched() if self._controller().active else []
        silent = {broker.id for broker in watched}
        for broker_id in [each for each in self._suspicions if late_ms > LATE_MS or each not in silent]:
            self._drop(broker_id, now_ms)
        if late_ms > LATE_MS:
            self._since_ms = now_ms
        if watched:
            self._look_at(max(now_ms + 1, min(self._judge(broker, now_ms) for broker in watched)))
        else:
            self._answered_ms.clear()

    def _judge(self, broker: BrokerRegistration, now_ms: int) -> int:
        """Does what is due for one broker. Returns when to look at it again."""
        heard_ms = max(self._since_ms, self._answered_ms.get(broker.id, 0), self._controller().last_heard_ms(broker.id))
        suspicion = self._suspicions.get(broker.id)
        if suspicion is not None and (suspicion.heard_ms, suspicion.broker_epoch) != (heard_ms, broker.epoch):
            self._drop(broker.id, now_ms)
            suspicion = None
        if suspicion is None:
            if now_ms < heard_ms + SUSPECTED_AFTER_MS:
                return heard_ms + SUSPECTED_AFTER_MS
            peer = self._peer_of(broker.id)
            if peer is None:
                return now_ms + SUSPECTED_AFTER_MS
            suspicion = self._suspicions[broker.id] = Suspicion(broker.epoch, peer, heard_ms, now_ms)
        if now_ms < suspicion.next_ms:
            return suspicion.next_ms
        if not self._all_made(suspicion):
            self._drop(broker.id, now_ms)
            return now_ms + self._interval_ms
        if len(suspicion.channels) < PROBES:
            self._probe(broker.id, suspicion, now_ms)
            suspicion.next_ms = now_ms + self._interval_ms
            return suspicion.next_ms
        self._drop(broker.id, now_ms)
        self.found += 1
        self.last_found = broker.id
        self._controller().stands_still(broker.id, broker.epoch, now_ms)
        return now_ms + self._interval_ms

    def _all_made(self, suspicion: Suspicion) -> bool:
        return all(self._outgoing.connected(suspicion.peer, channel) for channel in suspicion.channels)

    def _probe(self, broker_id: int, suspicion: Suspicion, now_ms: int) -> None:
        channel = f"{CHANNEL} {len(suspicion.channels)}"
        suspicion.channels.append(channel)
        self._outgoing.call(
            suspicion.peer,
            ApiVersionsRequest(),
            version=0,
            timeout_ms=2 * self._silence_ms,
            done=partial(self._answered, broker_id, suspicion),
            now_ms=now_ms,
            channel=channel,
        )

    def _answered(
        self, broker_id: int, suspicion: Suspicion, answer: Message | None, reason: str | None, now_ms: int
    ) -> None:
        """Ends the suspicion: the broker lives, or its connection was lost, which tells nothing of the process."""
        if self._suspicions.get(broker_id) is not suspicion:
            return
        if answer is not None:
            self._answered_ms[broker_id] = now_ms
        self._drop(broker_id, now_ms)

    def _drop(self, broker_id: int, now_ms: int) -> None:
        suspicion = self._suspicions.pop(broker_id)
        for channel in suspicion.channels:
            self._outgoing.hang_up(suspicion.peer, channel, "it is not suspected any more", now_ms)
