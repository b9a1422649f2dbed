"""A broker that accepts connections and answers nothing is fenced long before its session ends; no other one is."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.node.frozen import LATE_MS, SILENCE_MIN_MS, SUSPECTED_AFTER_MS, FrozenBrokers
from penstock.node.outgoing import Peer
from penstock.node.timers import TimerWheel
from penstock.protocol.messages.api_versions_response import ApiVersionsResponse

OWN, OTHER = 1, 2
PEER = Peer(OTHER, "other", 9092, "PLAINTEXT")
SESSION_MS = 9_000
STEP_MS = 5


@dataclass
class World:
    """A controller with one other broker, and the network between them.

    Attributes:
        connects: whether a connection that is dialled now is made.
        probes: what ends each probe that is under way, by its channel. stands_still: who was found, and when.
    """

    session_ms: int = SESSION_MS
    now_ms: int = 10_000
    heard_ms: int = 10_000
    active: bool = True
    connects: bool = True
    probes: dict[str, Any] = field(default_factory=dict)
    up: set[str] = field(default_factory=set)
    probed: int = 0
    found: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.timers = TimerWheel()
        others = {each: SimpleNamespace(id=each, epoch=each * 100, active=True) for each in (OWN, OTHER)}
        self.state = SimpleNamespace(image=SimpleNamespace(brokers=others))
        node: Any = self
        self.frozen = FrozenBrokers(
            OWN, node, self.timers, lambda _: PEER, session_timeout_ms=self.session_ms, controller=lambda: node
        )
        self.frozen.begin(self.now_ms)

    # What the controller and the calls to other nodes do

    def last_heard_ms(self, broker_id: int) -> int:
        assert broker_id == OTHER
        return self.heard_ms

    def stands_still(self, broker_id: int, broker_epoch: int, now_ms: int) -> None:
        assert (broker_id, broker_epoch) == (OTHER, 100 * OTHER)
        self.found.append((broker_id, now_ms))
        self.state.image.brokers[OTHER].active = False

    def call(self, peer: Peer, message: object, *, done: Any, channel: str, **options: Any) -> None:
        assert peer == PEER
        self.probed += 1
        self.probes[channel] = done
        if self.connects:
            self.up.add(channel)

    def connected(self, peer: Peer, channel: str) -> bool:
        return channel in self.up

    def hang_up(self, peer: Peer, channel: str, reason: str, now_ms: int) -> None:
        self.up.discard(channel)
        self.probes.pop(channel)(None, reason, now_ms)

    # What happens

    def run(self, duration_ms: int) -> None:
        until_ms = self.now_ms + duration_ms
        while self.now_ms < until_ms:
            self.now_ms += STEP_MS
            self.timers.advance(self.now_ms)

    def answers(self) -> None:
        done = next(iter(self.probes.values()))
        done(ApiVersionsResponse(), None, self.now_ms)


def test_a_broker_that_answers_nothing_is_found_within_a_fifth_of_its_session() -> None:
    world = World()
    world.run(SILENCE_MIN_MS + 20)
    assert [broker_id for broker_id, _ in world.found] == [OTHER]
    assert not world.probes, "its connections are closed"
    assert world.frozen.found == 1
    assert world.frozen.last_found == OTHER


def test_a_longer_session_is_more_patient_and_a_short_one_decides_itself() -> None:
    patient, short = World(session_ms=30_000), World(session_ms=SILENCE_MIN_MS)
    patient.run(6_000 - STEP_MS)
    assert not patient.found
    patient.run(50)
    assert patient.found
    short.run(10_000)
    assert (short.found, short.probed) == ([], 0)


def test_who_is_heard_from_is_asked_nothing() -> None:
    world = World()
    for _ in range(20):
        world.run(SUSPECTED_AFTER_MS - 2 * STEP_MS)
        world.heard_ms = world.now_ms
    assert world.probed == 0


@pytest.mark.parametrize("sign", ["an answer", "a heartbeat"])
def test_any_sign_of_life_ends_the_suspicion(sign: str) -> None:
    world = World()
    world.run(SILENCE_MIN_MS - 100)
    assert world.probes
    if sign == "an answer":
        world.answers()
    else:
        world.heard_ms = world.now_ms
    world.run(SILENCE_MIN_MS - 100)
    assert not world.found
    world.run(200)
    assert world.found, "a new silence counts from then on"


def test_a_broker_that_cannot_be_reached_keeps_its_session() -> None:
    world = World(connects=False)
    world.run(8_000)
    assert world.probed > 3
    assert not world.found


def test_a_connection_that_breaks_is_no_silence() -> None:
    world = World()
    world.run(SILENCE_MIN_MS - 100)
    channel, done = next(iter(world.probes.items()))
    world.up.discard(channel)
    done(None, "reset", world.now_ms)
    world.run(500)
    assert not world.found


def test_a_controller_that_stood_still_itself_begins_anew() -> None:
    world = World()
    world.run(SILENCE_MIN_MS - 100)
    world.now_ms += 200 + LATE_MS
    world.run(SILENCE_MIN_MS - 100)
    assert not world.found
    world.run(200)
    assert world.found


def test_only_the_active_controller_looks() -> None:
    world = World()
    world.run(SILENCE_MIN_MS - 100)
    world.active = False
    world.run(2 * SILENCE_MIN_MS)
    assert not world.found
    assert not world.probes
    assert len(world.timers) == 0
    world.active, world.heard_ms = True, world.now_ms
    world.frozen.begin(world.now_ms)
    world.run(SILENCE_MIN_MS + 20)
    assert world.found
