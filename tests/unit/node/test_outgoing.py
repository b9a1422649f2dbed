"""Calls to other nodes: one connection a channel, order, versions, time-outs, back-off, and one end to every call."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from support.broker import Node

from penstock.config.limits import PEER_CALLS_MAX, PEER_CHANNELS_MAX, PEER_IN_FLIGHT_MAX
from penstock.errors import ErrorCode
from penstock.node.effects import Dial, Effect, HangUp, SendTo
from penstock.node.handlers import api_versions
from penstock.node.outgoing import RECONNECT_BACKOFF_MAX_MS, RECONNECT_BACKOFF_MS, Call, Outgoing, Peer, PeerConnection
from penstock.node.timers import TICK_MS, TimerWheel
from penstock.protocol import frames
from penstock.protocol.api import API_BY_NUMBER, ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from penstock.protocol.messages.metadata_request import MetadataRequest
from penstock.protocol.messages.metadata_response import MetadataResponse
from penstock.protocol.messages.vote_request import VoteRequest
from penstock.protocol.messages.vote_response import VoteResponse

PEER = Peer(2, "10.0.0.2", 9093, "CONTROLLER")
OTHER = Peer(3, "10.0.0.3", 9093, "CONTROLLER")
METADATA, VOTE, API_VERSIONS = ApiKey.METADATA, ApiKey.VOTE, ApiKey.API_VERSIONS
SERVED = {METADATA: (0, 12), VOTE: (0, 1), API_VERSIONS: (0, 4)}


class Wire:
    """The world of an Outgoing: what it asked for, what it sent, how its calls ended, and a clock."""

    def __init__(self, **settings: Any) -> None:
        self.now_ms = 1_000_000
        self.timers = TimerWheel()
        self.effects: list[Effect] = []
        self.ended: list[tuple[str, Any, str | None]] = []
        self.lost: list[tuple[Peer, str, str]] = []
        self.outgoing = Outgoing(1, timers=self.timers, random=Random(1), emit=self.effects.append, **settings)
        self.outgoing.on_link_lost.append(
            lambda peer, channel, reason, now_ms: self.lost.append((peer, channel, reason))
        )

    def call(self, name: str, message: Message | None = None, peer: Peer = PEER, **arguments: Any) -> Call:
        ended = len(self.ended)
        call = self.outgoing.call(
            peer,
            message or MetadataRequest(topics=[]),
            done=lambda answer, reason, now_ms: self.ended.append((name, answer, reason)),
            now_ms=self.now_ms,
            **{"timeout_ms": 10_000, **arguments},
        )
        assert len(self.ended) == ended, "never before the call has returned"
        return call

    def advance(self, duration_ms: int) -> None:
        """Lets time pass, to every timer on the way."""
        end_ms = self.now_ms + duration_ms
        while (deadline_ms := self.timers.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self.timers.advance(self.now_ms)
        self.now_ms = end_ms

    def taken(self, kind: type[Effect]) -> list[Any]:
        """The effects of a kind since the last look."""
        found = [effect for effect in self.effects if type(effect) is kind]
        self.effects[:] = [effect for effect in self.effects if type(effect) is not kind]
        return found

    def dialled(self) -> Dial:
        (dial,) = self.taken(Dial)
        return dial  # type: ignore[no-any-return]

    def sent(self) -> list[tuple[frames.RequestHeader, Any]]:
        """The requests that were sent since the last look."""
        return [frames.decode_request(b"".join(effect.chunks)[4:]) for effect in self.taken(SendTo)]

    def answer(self, link: int, header: frames.RequestHeader, message: Message, version: int | None = None) -> None:
        api = API_BY_NUMBER[header.api_key]
        version = header.api_version if version is None else version
        chunks = frames.encode_response(api, version, header.correlation_id, message)
        self.outgoing.link_received(link, memoryview(b"".join(chunks)[4:]), self.now_ms)  # type: ignore[arg-type]

    def up(self, served: dict[ApiKey, tuple[int, int]] | None = None) -> int:
        """The connection that was dialled is up, and the peer has said what it serves."""
        link = self.dialled().link
        self.outgoing.link_up(link, self.now_ms)
        ((header, _),) = self.sent()
        self.answer(link, header, serves(SERVED if served is None else served))
        return link

    def names(self) -> list[str]:
        return [name for name, _, _ in self.ended]


def serves(served: dict[ApiKey, tuple[int, int]]) -> ApiVersionsResponse:
    rows = [ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in served.items()]
    return ApiVersionsResponse(api_keys=rows)


# The way of a call


def test_a_call_dials_asks_for_versions_and_ends_with_its_answer() -> None:
    wire = Wire()
    wire.call("a")
    assert wire.dialled() == Dial(1, "10.0.0.2", 9093, "CONTROLLER")
    wire.outgoing.link_up(1, wire.now_ms)
    ((header, request),) = wire.sent()
    assert (header.api_key, header.api_version) == (API_VERSIONS, 4)
    assert isinstance(request, ApiVersionsRequest)
    assert api_versions.NAME_OR_VERSION.fullmatch(request.client_software_version)
    assert request.client_software_name == "penstock"
    wire.answer(1, header, serves(SERVED))
    ((header, request),) = wire.sent()
    assert (header.api_key, header.api_version, request) == (METADATA, 12, MetadataRequest(topics=[]))
    wire.answer(1, header, MetadataResponse(controller_id=7))
    ((name, answer, reason),) = wire.ended
    assert (name, answer.controller_id, reason) == ("a", 7, None)
    assert wire.timers.next_deadline_ms() == wire.now_ms + 540_000, "only the look at idleness is left"


def test_a_call_with_a_version_needs_no_question_first() -> None:
    wire = Wire()
    wire.call("a", VoteRequest(), version=1)
    wire.outgoing.link_up(wire.dialled().link, wire.now_ms)
    ((header, _),) = wire.sent()
    assert (header.api_key, header.api_version) == (VOTE, 1)
    wire.answer(1, header, VoteResponse())
    assert wire.names() == ["a"]


def test_requests_leave_in_the_order_of_the_calls_whatever_their_versions() -> None:
    wire = Wire()
    wire.call("a", VoteRequest(), version=1)
    wire.call("b")
    wire.call("c", VoteRequest(), version=1)
    wire.outgoing.link_up(wire.dialled().link, wire.now_ms)
    vote, question = wire.sent()
    assert (vote[0].api_key, question[0].api_key) == (VOTE, API_VERSIONS)
    wire.answer(1, vote[0], VoteResponse())
    wire.answer(1, question[0], serves(SERVED))
    assert [header.api_key for header, _ in wire.sent()] == [METADATA, VOTE]


def test_a_peer_and_a_channel_have_one_connection_and_others_have_their_own() -> None:
    wire = Wire()
    for peer, channel in ((PEER, ""), (PEER, ""), (PEER, "fetch"), (OTHER, "")):
        wire.call("x", peer=peer, channel=channel)
    assert [(dial.link, dial.host) for dial in wire.taken(Dial)] == [(1, PEER.host), (2, PEER.host), (3, OTHER.host)]


def test_only_so_many_requests_are_under_way_and_the_next_follows_each_answer() -> None:
    wire = Wire()
    for number in range(PEER_IN_FLIGHT_MAX + 3):
        wire.call(str(number))
    link = wire.up()
    sent = wire.sent()
    assert len(sent) == PEER_IN_FLIGHT_MAX
    wire.answer(link, sent[0][0], MetadataResponse())
    assert len(wire.sent()) == 1
    assert wire.names() == ["0"]


def test_too_many_calls_are_refused_and_the_others_go_on() -> None:
    wire = Wire()
    for _ in range(PEER_CALLS_MAX):
        wire.call("fits")
    wire.call("too many")
    assert not wire.ended
    assert wire.outgoing.pending
    wire.outgoing.proceed(wire.now_ms)
    assert wire.ended == [("too many", None, f"node 2 at 10.0.0.2:9093: {PEER_CALLS_MAX} calls are waiting already")]
    wire.up()
    assert len(wire.sent()) == PEER_IN_FLIGHT_MAX


def test_too_many_channels_are_refused_until_others_are_idle() -> None:
    wire = Wire(idle_ms=1_000)
    for number in range(PEER_CHANNELS_MAX):
        wire.call("fits", channel=str(number), timeout_ms=100)
    wire.call("too many", channel="one more")
    wire.outgoing.proceed(wire.now_ms)
    assert wire.names() == ["too many"]
    wire.advance(2_000)
    wire.call("later", channel="one more")
    wire.outgoing.proceed(wire.now_ms)
    assert wire.names().count("too many") == 1
    assert "later" not in wire.names()


def test_a_callback_may_call_again() -> None:
    wire = Wire()
    answers: list[Any] = []

    def again(answer: Message | None, reason: str | None, now_ms: int) -> None:
        answers.append(reason)
        if len(answers) < 3:
            wire.outgoing.call(PEER, MetadataRequest(), timeout_ms=1_000, done=again, now_ms=now_ms)

    wire.outgoing.call(PEER, MetadataRequest(), timeout_ms=1_000, done=again, now_ms=wire.now_ms)
    link = wire.up()
    ((header, _),) = wire.sent()
    wire.answer(link, header, MetadataResponse())
    assert len(wire.sent()) == 1
    wire.outgoing.link_lost(link, "gone", wire.now_ms)
    assert answers == [None, "node 2 at 10.0.0.2:9093: gone"]
    wire.advance(RECONNECT_BACKOFF_MAX_MS)
    assert len(wire.taken(Dial)) == 1


def test_a_call_taken_back_is_not_sent_and_an_answer_to_it_goes_nowhere() -> None:
    wire = Wire()
    first, second = wire.call("first"), wire.call("second")
    wire.outgoing.cancel(first)
    link = wire.up()
    ((header, _),) = wire.sent()
    wire.outgoing.cancel(second)
    wire.call("third")
    ((next_header, _),) = wire.sent()
    wire.answer(link, header, MetadataResponse())
    wire.answer(link, next_header, MetadataResponse())
    assert wire.names() == ["third"]


# Versions


def test_the_highest_common_version_is_taken() -> None:
    wire = Wire()
    wire.call("a")
    wire.up({METADATA: (3, 9)})
    assert wire.sent()[0][0].api_version == 9


@pytest.mark.parametrize(
    ("served", "says"), [({}, "no version"), ({METADATA: (90, 99)}, "versions 90 to 99")], ids=["none", "too new"]
)
def test_without_a_common_version_the_call_is_refused_by_name(served: dict[ApiKey, tuple[int, int]], says: str) -> None:
    wire = Wire()
    wire.call("a")
    wire.call("b", VoteRequest(), version=1)
    wire.up(served)
    wire.outgoing.proceed(wire.now_ms)
    ((_, _, reason),) = wire.ended
    assert reason is not None
    assert reason == f"node 2 at 10.0.0.2:9093 serves {says} of Metadata, we know 0 to 13"
    assert [header.api_key for header, _ in wire.sent()] == [VOTE], "the connection goes on"


def test_a_peer_that_knows_only_older_versions_of_the_question_is_asked_in_those() -> None:
    wire = Wire()
    wire.call("a")
    wire.outgoing.link_up(wire.dialled().link, wire.now_ms)
    ((header, _),) = wire.sent()
    refusal = serves({API_VERSIONS: (0, 2)})
    refusal.error_code = ErrorCode.UNSUPPORTED_VERSION
    wire.answer(1, header, refusal, version=0)
    ((header, _),) = wire.sent()
    assert header.api_version == 2
    wire.answer(1, header, serves(SERVED))
    assert [header.api_key for header, _ in wire.sent()] == [METADATA]


def test_a_message_that_the_version_cannot_say_is_refused() -> None:
    wire = Wire()
    wire.call("a", MetadataRequest(topics=None), version=0)
    wire.outgoing.link_up(wire.dialled().link, wire.now_ms)
    wire.outgoing.proceed(wire.now_ms)
    ((_, _, reason),) = wire.ended
    assert reason is not None
    assert "version 0 of Metadata cannot say this" in reason


# What goes wrong


def test_a_lost_connection_ends_its_calls_in_order_and_no_others() -> None:
    wire = Wire()
    wire.call("sent")
    link = wire.up()
    for number in range(PEER_IN_FLIGHT_MAX):
        wire.call(f"more {number}")
    wire.call("elsewhere", peer=OTHER)
    wire.outgoing.link_lost(link, "connection reset by peer", wire.now_ms)
    assert wire.names() == ["sent"] + [f"more {number}" for number in range(PEER_IN_FLIGHT_MAX)]
    assert {reason for _, _, reason in wire.ended} == {"node 2 at 10.0.0.2:9093: connection reset by peer"}
    assert wire.lost == [(PEER, "", "connection reset by peer")]
    wire.outgoing.link_lost(link, "again", wire.now_ms)
    assert len(wire.lost) == 1


def test_a_connection_that_cannot_be_made_is_no_lost_one() -> None:
    wire = Wire()
    wire.call("a")
    wire.outgoing.link_lost(wire.dialled().link, "connection refused", wire.now_ms)
    assert wire.ended == [("a", None, "node 2 at 10.0.0.2:9093: connection refused")]
    assert wire.lost == []


def test_the_time_between_attempts_doubles_up_to_a_limit_and_begins_anew_after_an_answer() -> None:
    wire = Wire()
    waits = []
    for _ in range(8):
        wire.call("fails")
        begun_ms = wire.now_ms
        while not (dials := wire.taken(Dial)):
            wire.advance(TICK_MS)
        waits.append(wire.now_ms - begun_ms)
        wire.outgoing.link_lost(dials[0].link, "connection refused", wire.now_ms)
    expected = [0] + [min(RECONNECT_BACKOFF_MAX_MS, RECONNECT_BACKOFF_MS << number) for number in range(7)]
    for wait_ms, expected_ms in zip(waits, expected, strict=True):
        assert 0.8 * expected_ms - TICK_MS <= wait_ms <= 1.2 * expected_ms + TICK_MS, waits
    wire.call("a")
    wire.advance(2 * RECONNECT_BACKOFF_MAX_MS)
    wire.up()
    wire.outgoing.link_lost(9, "reset", wire.now_ms)
    wire.call("b")
    wire.advance(2 * RECONNECT_BACKOFF_MS)
    assert len(wire.taken(Dial)) == 1


def test_a_connection_that_lived_is_dialled_again_at_once() -> None:
    wire = Wire()
    wire.call("a")
    link = wire.up()
    wire.advance(5_000)
    wire.outgoing.link_lost(link, "closed", wire.now_ms)
    wire.call("b")
    assert len(wire.taken(Dial)) == 1


def test_a_connection_that_does_not_come_up_is_given_up() -> None:
    wire = Wire(setup_timeout_ms=1_000, setup_timeout_max_ms=2_000)
    wire.call("patient", timeout_ms=60_000)
    wire.advance(500)
    wire.call("hasty", timeout_ms=100)
    wire.advance(200)
    assert wire.ended == [("hasty", None, "node 2 at 10.0.0.2:9093: no answer to Metadata within 100 ms")]
    assert not wire.taken(HangUp)
    wire.advance(1_000)
    assert wire.names() == ["hasty", "patient"]
    assert "no connection within" in str(wire.ended[1][2])
    assert wire.taken(HangUp) == [HangUp(wire.dialled().link)]


def test_a_peer_that_does_not_answer_at_all_loses_the_connection() -> None:
    wire = Wire()
    wire.call("first", timeout_ms=1_000)
    wire.call("second", timeout_ms=5_000)
    link = wire.up()
    wire.advance(1_100)
    reason = "node 2 at 10.0.0.2:9093: no answer to Metadata within 1000 ms"
    assert wire.ended == [("first", None, reason), ("second", None, reason)]
    assert wire.taken(HangUp) == [HangUp(link)]
    assert len(wire.lost) == 1


def test_a_call_behind_a_long_one_ends_alone() -> None:
    """The first may be a fetch that waits for data: that its successors have no answer says nothing of the peer."""
    wire = Wire()
    wire.call("long", timeout_ms=30_000)
    wire.call("short", timeout_ms=1_000)
    link = wire.up()
    (long, _), (short, _) = wire.sent()
    wire.advance(2_000)
    assert wire.names() == ["short"]
    assert not wire.taken(HangUp)
    wire.answer(link, long, MetadataResponse())
    wire.answer(link, short, MetadataResponse())
    assert wire.names() == ["short", "long"]
    wire.call("next")
    assert len(wire.sent()) == 1


def test_an_answer_that_is_overdue_and_next_decides_on_the_connection() -> None:
    wire = Wire()
    wire.call("long", timeout_ms=30_000)
    wire.call("short", timeout_ms=1_000)
    link = wire.up()
    (long, _), _ = wire.sent()
    wire.advance(2_000)
    wire.answer(link, long, MetadataResponse())
    wire.call("behind", timeout_ms=30_000)
    wire.advance(900)
    assert wire.names() == ["short", "long"]
    wire.advance(200)
    assert wire.names() == ["short", "long", "behind"]
    assert wire.taken(HangUp) == [HangUp(link)]


def garbage(wire: Wire, header: frames.RequestHeader) -> bytes:
    return b"\x00\x00"


def other_correlation_id(wire: Wire, header: frames.RequestHeader) -> bytes:
    return (header.correlation_id + 1).to_bytes(4, "big") + b"\0" * 40


def hostile_length(wire: Wire, header: frames.RequestHeader) -> bytes:
    return header.correlation_id.to_bytes(4, "big") + b"\0" + b"\0" * 4 + b"\xff\xff\xff\xff\x0f" * 4


@pytest.mark.parametrize("broken", [garbage, other_correlation_id, hostile_length])
def test_a_broken_answer_loses_that_connection_and_no_other(
    broken: Callable[[Wire, frames.RequestHeader], bytes],
) -> None:
    wire = Wire()
    wire.call("a")
    link = wire.up()
    ((header, _),) = wire.sent()
    wire.call("elsewhere", peer=OTHER)
    wire.up()
    ((other, _),) = wire.sent()
    wire.outgoing.link_received(link, memoryview(broken(wire, header)), wire.now_ms)
    assert wire.names() == ["a"]
    assert "its answer to Metadata is broken" in str(wire.ended[0][2])
    assert wire.taken(HangUp) == [HangUp(link)]
    wire.answer(2, other, MetadataResponse())
    assert wire.names() == ["a", "elsewhere"]


def test_an_answer_to_nothing_loses_the_connection() -> None:
    wire = Wire()
    call = wire.call("a")
    wire.outgoing.link_up(wire.dialled().link, wire.now_ms)
    ((header, _),) = wire.sent()
    wire.outgoing.cancel(call)
    wire.answer(1, header, serves(SERVED))
    wire.answer(1, header, serves(SERVED))
    assert wire.taken(HangUp) == [HangUp(1)]
    assert not wire.ended


def test_events_of_a_link_that_was_hung_up_are_ignored() -> None:
    wire = Wire()
    wire.call("a", timeout_ms=100)
    link = wire.up()
    ((header, _),) = wire.sent()
    wire.advance(200)
    wire.answer(link, header, MetadataResponse())
    wire.outgoing.link_up(link, wire.now_ms)
    wire.outgoing.link_lost(link, "late", wire.now_ms)
    assert wire.names() == ["a"]


# The end


def test_an_idle_connection_is_closed_and_forgotten_before_the_other_side_does() -> None:
    wire = Wire(idle_ms=10_000)
    wire.call("a")
    link = wire.up()
    wire.answer(link, wire.sent()[0][0], MetadataResponse())
    wire.advance(5_000)
    wire.call("b")
    wire.answer(link, wire.sent()[0][0], MetadataResponse())
    wire.advance(8_000)
    assert not wire.taken(HangUp)
    assert wire.outgoing.connected(PEER)
    wire.advance(1_500)
    assert wire.taken(HangUp) == [HangUp(link)]
    assert not wire.outgoing.connected(PEER)
    assert wire.lost == []
    assert wire.timers.next_deadline_ms() is None
    wire.call("c")
    assert wire.dialled().link == link + 1, "a link's number is not used again"


def test_a_channel_that_is_not_needed_any_more_is_hung_up() -> None:
    wire = Wire()
    wire.call("a", channel="fetch")
    wire.outgoing.hang_up(PEER, "fetch", "not a leader any more", wire.now_ms)
    assert wire.taken(HangUp) == [HangUp(wire.dialled().link)]
    assert not wire.ended
    wire.outgoing.proceed(wire.now_ms)
    assert wire.ended == [("a", None, "not a leader any more")]
    wire.outgoing.hang_up(PEER, "fetch", "twice", wire.now_ms)


def test_a_node_that_stops_ends_all_calls_and_takes_no_more() -> None:
    wire = Wire()
    wire.call("a")
    wire.outgoing.stop()
    wire.call("b")
    wire.outgoing.proceed(wire.now_ms)
    assert [(name, reason) for name, _, reason in wire.ended] == [
        ("a", "this node is stopping"),
        ("b", "this node is stopping"),
    ]
    assert not wire.outgoing.pending


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
        while self.wire.timers.next_deadline_ms() is not None or self.wire.outgoing.pending:
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


# A node that calls itself


def test_a_node_calls_itself_through_its_own_handlers() -> None:
    node = Node()
    me = Peer(node.broker.node_id, "127.0.0.1", 9092, "PLAINTEXT")
    answers: list[tuple[Any, str | None]] = []
    for _ in range(2):
        node.broker.outgoing.call(
            me,
            MetadataRequest(topics=None),
            timeout_ms=1_000,
            done=lambda answer, reason, now_ms: answers.append((answer, reason)),
            now_ms=node.now_ms,
        )
        assert not answers
    node.run()
    node.settle()
    ((answer, reason), _) = answers
    assert reason is None
    assert [broker.node_id for broker in answer.brokers] == [1]
    (connection,) = [each for each in node.broker.connections.values() if each.listener == me.listener]
    assert str(connection.principal) == "Node:1"


def test_a_node_that_stops_ends_the_calls_to_itself() -> None:
    node = Node()
    me = Peer(node.broker.node_id, "127.0.0.1", 9092, "PLAINTEXT")
    reasons: list[str | None] = []
    request = MetadataRequest(topics=None)
    node.broker.outgoing.call(
        me, request, timeout_ms=1_000, done=lambda _, reason, now_ms: reasons.append(reason), now_ms=node.now_ms
    )
    node.run()
    node.stop()
    node.broker.outgoing.call(
        me, request, timeout_ms=1_000, done=lambda _, reason, now_ms: reasons.append(reason), now_ms=node.now_ms
    )
    node.run()
    assert reasons == [None, "this node is stopping"]


def test_an_api_that_a_listener_does_not_serve_is_refused_by_name() -> None:
    node = Node()
    me = Peer(node.broker.node_id, "127.0.0.1", 9093, "CONTROLLER")
    reasons: list[str | None] = []
    node.broker.outgoing.call(
        me,
        MetadataRequest(topics=None),
        timeout_ms=1_000,
        done=lambda _, reason, now_ms: reasons.append(reason),
        now_ms=node.now_ms,
    )
    node.run()
    node.settle()
    assert reasons == ["node 1 at 127.0.0.1:9093 serves no version of Metadata, we know 0 to 13"]
