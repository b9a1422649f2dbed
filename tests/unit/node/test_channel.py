"""Calls to the active controller: they wait for one, follow it when it changes, and are answered once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.errors import ErrorCode
from penstock.node.bugs import Bugs
from penstock.node.channel import RETRY_BACKOFF_MS, Channel, address_bytes
from penstock.node.limits import CONTROLLER_CALLS_MAX
from penstock.node.outgoing import Peer
from penstock.node.timers import TimerWheel
from penstock.protocol.message import Message
from penstock.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from penstock.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse

FIRST = Peer(1, "127.0.0.1", 9093, "CONTROLLER")
SECOND = Peer(2, "127.0.0.1", 9094, "CONTROLLER")


class Sent:
    """A call that has left."""

    def __init__(self, peer: Peer, message: Message, done: Callable[[Message | None, str | None, int], None]) -> None:
        self.peer = peer
        self.message = message
        self.done = done
        self.cancelled = False


class Node:
    """What a channel uses of a broker; `sent` are the calls to other nodes, `answers` what was answered."""

    def __init__(self) -> None:
        self.now_ms = 1_000
        self.timers = TimerWheel()
        self.sent: list[Sent] = []
        self.hung_up: list[Peer] = []
        self.answers: list[Any] = []
        bugs = Bugs(lambda: self.now_ms)
        self.channel = Channel(7, self, self.timers, bugs, request_timeout_ms=30_000)  # type: ignore[arg-type]

    def call(self, peer: Peer, message: Message, *, done: Any, **options: Any) -> Sent:
        self.sent.append(Sent(peer, message, done))
        return self.sent[-1]

    def cancel(self, call: Sent) -> None:
        call.cancelled = True

    def hang_up(self, peer: Peer, channel: str, reason: str, now_ms: int) -> None:
        self.hung_up.append(peer)

    def ask(self, **options: Any) -> Any:
        return self.channel.to_controller(
            BrokerHeartbeatRequest(broker_id=7),
            lambda answer, now_ms: self.answers.append(answer),
            self.now_ms,
            **options,
        )

    def controller(self, peer: Peer | None) -> None:
        self.channel.controller_changed(peer, self.now_ms)

    def advance(self, duration_ms: int) -> None:
        self.now_ms += duration_ms
        self.timers.advance(self.now_ms)

    def answer(self, number: int, answer: Message | None) -> None:
        self.sent[number].done(answer, None if answer is not None else "it broke", self.now_ms)


def test_a_call_waits_until_there_is_a_controller() -> None:
    node = Node()
    node.ask()
    assert not node.sent
    node.controller(FIRST)
    assert [each.peer for each in node.sent] == [FIRST]
    answer = BrokerHeartbeatResponse()
    node.answer(0, answer)
    assert node.answers == [answer]
    assert len(node.channel) == 0
    assert len(node.timers) == 0


def test_who_is_not_the_controller_is_asked_again_after_a_while() -> None:
    node = Node()
    node.controller(FIRST)
    node.ask()
    for number, answer in enumerate((BrokerHeartbeatResponse(error_code=ErrorCode.NOT_CONTROLLER), None)):
        node.answer(number, answer)
        assert len(node.sent) == number + 1
        node.advance(RETRY_BACKOFF_MS + 5)
        assert len(node.sent) == number + 2
    node.answer(2, BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    assert [each.error_code for each in node.answers] == [ErrorCode.STALE_BROKER_EPOCH], "other errors are answers"


def test_a_new_controller_is_asked_at_once_and_the_old_one_not_waited_for() -> None:
    node = Node()
    node.controller(FIRST)
    node.ask()
    node.controller(SECOND)
    assert node.sent[0].cancelled
    assert node.hung_up == [FIRST]
    assert [each.peer for each in node.sent] == [FIRST, SECOND]
    node.controller(SECOND)
    assert len(node.sent) == 2, "no news, no further call"


def test_a_call_without_an_answer_ends_at_its_deadline() -> None:
    node = Node()
    node.ask(timeout_ms=100)
    node.controller(FIRST)
    node.advance(105)
    assert node.answers == [None]
    assert node.sent[0].cancelled
    node.controller(SECOND)
    assert len(node.sent) == 1


def test_a_cancelled_call_is_never_answered() -> None:
    node = Node()
    node.controller(FIRST)
    call = node.ask()
    node.channel.cancel(call)
    node.advance(60_000)
    assert node.sent[0].cancelled
    assert not node.answers


def test_calls_are_bounded_and_the_one_too_many_is_answered_too() -> None:
    node = Node()
    for _ in range(CONTROLLER_CALLS_MAX + 1):
        node.ask()
    node.advance(5)
    assert node.answers == [None]
    assert len(node.channel) == CONTROLLER_CALLS_MAX


def test_addresses_of_clients_are_told_as_bytes() -> None:
    assert address_bytes("10.1.2.3:40000") == bytes([10, 1, 2, 3])
    assert address_bytes("[::1]:40000") == bytes(15) + b"\x01"
    assert address_bytes("node 1") == b""
