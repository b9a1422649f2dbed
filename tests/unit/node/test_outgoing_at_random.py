"""Random schedules of calls on connections that come up, answer and break: every call ends, and once."""

from __future__ import annotations

from random import Random

import pytest
from support.wire import API_VERSIONS, OTHER, PEER, SERVED, Wire, serves

from penstock.node.effects import Dial, HangUp, SendTo
from penstock.node.outgoing import Call, Outgoing, PeerConnection
from penstock.protocol import frames
from penstock.protocol.message import Message
from penstock.protocol.messages.metadata_request import MetadataRequest
from penstock.protocol.messages.metadata_response import MetadataResponse


class Chaos:
    """Calls at random, on connections that come up, answer and break at random."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.wire = Wire(setup_timeout_ms=300, setup_timeout_max_ms=1_000, idle_ms=3_000)
        self.started = 0
        self.ended: dict[int, int] = {}
        self.dialling: list[int] = []
        self.unanswered: dict[int, list[frames.RequestHeader]] = {}

    def call(self) -> None:
        number, wire = self.started, self.wire
        self.started += 1

        def done(answer: Message | None, reason: str | None, now_ms: int) -> None:
            assert (answer is None) != (reason is None)
            self.ended[number] = self.ended.get(number, 0) + 1
            if self.random.random() < 0.1:
                self.call()

        wire.outgoing.call(
            self.random.choice((PEER, OTHER)),
            MetadataRequest(),
            timeout_ms=self.random.randrange(5, 2_000),
            done=done,
            now_ms=wire.now_ms,
            version=self.random.choice((None, 12)),
        )

    def connect(self) -> None:
        if self.dialling:
            link = self.dialling.pop(0)
            if self.random.random() < 0.7:
                self.unanswered[link] = []
                self.wire.outgoing.link_up(link, self.wire.now_ms)
            else:
                self.wire.outgoing.link_lost(link, "refused", self.wire.now_ms)

    def break_one(self) -> None:
        if self.unanswered:
            link = self.random.choice(sorted(self.unanswered))
            del self.unanswered[link]
            self.wire.outgoing.link_lost(link, "reset", self.wire.now_ms)

    def answer(self) -> None:
        if self.unanswered:
            link = self.random.choice(sorted(self.unanswered))
            headers = self.unanswered[link]
            for _ in range(min(3, len(headers))):
                header = headers.pop(0)
                message = serves(SERVED) if header.api_key == API_VERSIONS else MetadataResponse()
                self.wire.answer(link, header, message)

    def wait(self) -> None:
        self.wire.advance(self.random.randrange(200))

    def step(self) -> None:
        events = (self.call, self.call, self.connect, self.break_one, self.answer, self.answer, self.wait)
        self.random.choice(events)()
        for effect in self.wire.effects:
            if isinstance(effect, Dial):
                self.dialling.append(effect.link)
            elif isinstance(effect, HangUp):
                self.unanswered.pop(effect.link, None)
                self.dialling = [link for link in self.dialling if link != effect.link]
            elif isinstance(effect, SendTo) and effect.link in self.unanswered:
                header, _ = frames.decode_request(b"".join(effect.chunks)[4:])  # type: ignore[arg-type]
                self.unanswered[effect.link].append(header)
        self.wire.effects.clear()

    def finish(self) -> None:
        """Nobody answers any more, and all timers run out."""
        while self.wire.timers.next_deadline_ms() is not None or self.wire.outgoing.unreported:
            self.wire.advance(5_000)
            self.wire.outgoing.proceed(self.wire.now_ms)


def run_chaos(seed: int) -> None:
    chaos = Chaos(seed)
    for _ in range(400):
        chaos.step()
    chaos.finish()
    assert chaos.started > 100
    assert sorted(chaos.ended) == list(range(chaos.started)), "every call ends"
    assert set(chaos.ended.values()) == {1}, "a call ends once"


@pytest.mark.parametrize("seed", range(30))
def test_whatever_happens_every_call_ends_once(seed: int) -> None:
    run_chaos(seed)


def test_planted_a_timer_that_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Outgoing, "_disarm", lambda *_: None)
    with pytest.raises((AssertionError, ValueError, IndexError)):
        for_seeds(range(5))


def test_planted_calls_that_wait_for_a_connection_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Outgoing._disconnect

    def forgetful(outgoing: Outgoing, connection: PeerConnection) -> list[Call]:
        return [call for call in real(outgoing, connection) if call.sent]

    monkeypatch.setattr(Outgoing, "_disconnect", forgetful)
    with pytest.raises(AssertionError, match="every call ends"):
        for_seeds(range(5))


def for_seeds(seeds: range) -> None:
    for seed in seeds:
        run_chaos(seed)
