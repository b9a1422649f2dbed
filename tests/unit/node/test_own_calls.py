"""Calls of a node to itself that are answered without frames, and those that are not."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from support.broker import Client, Node
from support.transaction_requests import ALONE, add, begin, codes_of, coordinate, described, end
from support.transactions import TRANSACTIONAL_ID, in_transaction, transactional

from penstock.coordinator.transaction.transaction import Producer
from penstock.errors import ErrorCode
from penstock.node.limits import PARTITIONS_PER_STEP
from penstock.node.own_calls import Direct, OwnCall, OwnCalls
from penstock.node.verification import CHANNEL as VERIFICATION
from penstock.protocol.messages.write_txn_markers_request import WriteTxnMarkersRequest
from penstock.protocol.messages.write_txn_markers_response import WriteTxnMarkersResponse


class Calls:
    """The calls of node 1, to itself and others, and what becomes of them.

    Attributes: `sent`, what goes through `Outgoing`; `told`, how calls have ended; `bugs`.
    """

    def __init__(self, direct: Direct) -> None:
        self.events: deque[Callable[[int], None]] = deque()
        self.sent: list[Any] = []
        self.told: list[tuple[Any, str | None]] = []
        self.bugs: list[str] = []
        self.state = SimpleNamespace(stopping=False)
        outgoing = SimpleNamespace(node_id=1, call=lambda peer, message, **_: self.sent.append(peer.node_id))
        self.own = OwnCalls(self.state, outgoing, self, lambda what, error: self.bugs.append(str(error)))  # type: ignore[arg-type]
        self.own.direct[WriteTxnMarkersRequest] = direct

    def ask(self, node_id: int = 1, done: Callable[..., None] | None = None) -> None:
        """A call, and all that follows."""

        def told(answer: Any, reason: str | None, now_ms: int) -> None:
            self.told.append((answer, reason))

        peer: Any = SimpleNamespace(node_id=node_id)
        self.own.call(peer, WriteTxnMarkersRequest(), timeout_ms=1, done=done or told, now_ms=0)
        assert not self.told, "never before the call returns"
        while self.events:
            self.events.popleft()(0)


ANSWER = WriteTxnMarkersResponse()


def at_once(request: Any, call: OwnCall, now_ms: int) -> bool:
    call.answer(ANSWER, now_ms)
    return True


def test_what_a_handler_takes_is_not_sent() -> None:
    calls = Calls(at_once)
    calls.ask()
    assert calls.told == [(ANSWER, None)]
    assert not calls.sent


def test_what_it_does_not_take_and_what_is_for_others_is_sent() -> None:
    calls = Calls(lambda request, call, now_ms: False)
    calls.ask()
    assert calls.sent == [1]
    calls = Calls(at_once)
    calls.ask(2)
    assert calls.sent == [2]
    calls.state.stopping = True
    calls.ask()
    assert calls.sent == [2, 1]
    assert not calls.told


def test_a_bug_of_the_handler_ends_the_call_once() -> None:
    def answers_and_breaks(request: Any, call: OwnCall, now_ms: int) -> bool:
        call.answer(ANSWER, now_ms)
        raise ValueError("broken")

    def later() -> None:
        raise ValueError("broken")

    def breaks_later(request: Any, call: OwnCall, now_ms: int) -> bool:
        call.guard(later)()
        return True

    for direct, ended in ((answers_and_breaks, (ANSWER, None)), (breaks_later, (None, "it broke this node"))):
        calls = Calls(direct)
        calls.ask()
        assert calls.told == [ended]
        assert len(calls.bugs) == 1


def test_a_bug_of_the_caller_over_the_answer_leaves_it_without_one() -> None:
    calls = Calls(at_once)

    def done(answer: Any, reason: str | None, now_ms: int) -> None:
        calls.told.append((answer, reason))
        if answer is not None:
            raise ValueError("broken")

    calls.ask(done=done)
    assert calls.told == [(ANSWER, None), (None, "it broke this node")]
    assert calls.bugs == ["broken"]


# A node that coordinates a transaction and leads all its partitions


@pytest.fixture
def node() -> Node:
    node = Node(**ALONE)
    node.create_topic("orders", partitions=PARTITIONS_PER_STEP + 1)
    coordinate(node)
    return node


def transacted(node: Node, client: Client, producer: Producer, partitions: int) -> Producer:
    """A transaction over partitions from number 0 on, from its first batch until it is complete."""
    batches = [transactional(epoch=producer.epoch, producer_id=producer.id) for _ in range(partitions)]
    client.send(in_transaction("orders", *batches), 12)
    node.settle()
    parts = client.receive().responses[0].partition_responses
    assert {each.error_code for each in parts} == {ErrorCode.NONE}
    answer = client.ask(end(producer, of=TRANSACTIONAL_ID), 5)
    assert answer.error_code == ErrorCode.NONE
    node.settle()
    assert described(node.connect(), TRANSACTIONAL_ID).transaction_state == "CompleteCommit"
    assert not any(node.broker.replicas.leader("orders", each, 0).log.producers.ongoing for each in range(partitions))  # type: ignore[union-attr]
    return Producer(answer.producer_id, answer.producer_epoch)


def asked_itself(node: Node) -> dict[str, int]:
    """How many requests of the node to itself went through frames."""
    counters = node.broker.dispatcher.exit.counters
    names = {"AddPartitionsToTxn", "WriteTxnMarkers"}
    return {each.name: each.requests for each in counters.values() if each.name in names and each.requests}


def test_few_partitions_go_without_frames_and_many_in_steps(node: Node) -> None:
    client = node.connect()
    producer = transacted(node, client, begin(client, TRANSACTIONAL_ID), 3)
    assert asked_itself(node) == {}
    assert node.broker.outgoing.link(node.broker.node_id, VERIFICATION) is None
    transacted(node, client, producer, PARTITIONS_PER_STEP + 1)
    assert asked_itself(node) == {"AddPartitionsToTxn": 1, "WriteTxnMarkers": 1}


def test_a_partition_that_is_not_in_the_transaction_is_found_without_frames(node: Node) -> None:
    client = node.connect()
    producer = begin(client, TRANSACTIONAL_ID, version=4)
    added = client.ask(add(producer, ("orders", 0), of=TRANSACTIONAL_ID), 3)
    assert codes_of(added.results_by_topic_v3_and_below) == {("orders", 0): ErrorCode.NONE}
    batches = [transactional(epoch=producer.epoch, producer_id=producer.id) for _ in range(2)]
    answer = client.ask(in_transaction("orders", *batches), 11).responses[0].partition_responses
    assert [each.error_code for each in answer] == [ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE]
    batches = [transactional(epoch=producer.epoch + 1, producer_id=producer.id) for _ in range(2)]
    answer = client.ask(in_transaction("orders", *batches), 11).responses[0].partition_responses
    assert {each.error_code for each in answer} == {ErrorCode.INVALID_PRODUCER_EPOCH}
    assert asked_itself(node) == {"AddPartitionsToTxn": 1}, "the client's"
