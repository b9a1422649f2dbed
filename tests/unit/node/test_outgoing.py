"""Calls to other nodes: one connection a channel, order, versions, time-outs, back-off, and one end to every call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.wire import API_VERSIONS, METADATA, OTHER, PEER, SERVED, VOTE, Wire, serves

from penstock.errors import ErrorCode
from penstock.node.effects import REFUSED, Dial, HangUp
from penstock.node.handlers import api_versions
from penstock.node.limits import PEER_CALLS_MAX, PEER_CHANNELS_MAX, PEER_IN_FLIGHT_MAX
from penstock.node.outgoing import RECONNECT_BACKOFF_MAX_MS, RECONNECT_BACKOFF_MS, NotServed
from penstock.node.timers import TICK_MS
from penstock.protocol import frames
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.metadata_request import MetadataRequest
from penstock.protocol.messages.metadata_response import MetadataResponse
from penstock.protocol.messages.vote_request import VoteRequest
from penstock.protocol.messages.vote_response import VoteResponse

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
    assert wire.outgoing.unreported
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
    assert isinstance(reason, NotServed)


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
    assert (wire.outgoing.calls, wire.outgoing.failed) == (PEER_IN_FLIGHT_MAX + 3, PEER_IN_FLIGHT_MAX + 1)


def test_a_connection_that_cannot_be_made_is_no_lost_one() -> None:
    wire = Wire()
    wire.call("a")
    wire.outgoing.link_lost(wire.dialled().link, "connection refused", wire.now_ms)
    assert wire.ended == [("a", None, "node 2 at 10.0.0.2:9093: connection refused")]
    assert wire.lost == []


def test_who_refuses_connections_is_gone_if_it_took_one_before() -> None:
    """A firewall that refuses in the name of a process that lives has always done so."""
    wire = Wire()
    wire.call("first")
    wire.outgoing.link_lost(wire.dialled().link, REFUSED, wire.now_ms)
    refused = wire.ended[-1][2]
    assert not wire.outgoing.is_gone(PEER, refused)
    wire.call("second")
    wire.advance(2 * RECONNECT_BACKOFF_MAX_MS)
    wire.outgoing.link_lost(wire.up(), "connection reset by peer", wire.now_ms)
    assert not wire.outgoing.is_gone(PEER, wire.ended[-1][2])
    assert wire.outgoing.is_gone(PEER, refused)
    assert not wire.outgoing.is_gone(OTHER, refused)


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
    assert not wire.outgoing.unreported
