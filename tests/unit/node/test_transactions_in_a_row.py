"""A producer that begins its next transaction at once, while the markers of the last one are still being written."""

from __future__ import annotations

import pytest
from support.broker import Client, Node
from support.transaction_requests import ALONE, begin, coordinate, described, end
from support.transactions import TRANSACTIONAL_ID, in_transaction, transactional

from penstock.coordinator.transaction.transaction import Producer
from penstock.errors import ErrorCode
from penstock.protocol.messages.produce_request import ProduceRequest

BACKOFF_MS = 20
"""The default of add.partitions.to.txn.retry.backoff.ms."""


@pytest.fixture
def node() -> Node:
    """A node that coordinates, some milliseconds after a tick of its timers."""
    node = Node(**ALONE)
    node.create_topic("orders")
    coordinate(node)
    node.now_ms += 1
    return node


def first_of(producer: Producer) -> ProduceRequest:
    """The first batch of a transaction of this epoch."""
    return in_transaction("orders", transactional(epoch=producer.epoch, producer_id=producer.id))


def written(client: Client) -> ErrorCode:
    return ErrorCode(client.receive().responses[0].partition_responses[0].error_code)


def ended_without_its_marker(node: Node, client: Client) -> Producer:
    """Commits a transaction whose marker is held back on its way to the disk; gives the producer of the next one."""
    producer = begin(client, TRANSACTIONAL_ID)
    client.send(first_of(producer), 12)
    assert written(client) is ErrorCode.NONE
    node.held = lambda operation: operation.order == "orders-0"
    answer = client.ask(end(producer, of=TRANSACTIONAL_ID), 5)
    assert answer.error_code == ErrorCode.NONE
    assert described(node.connect(), TRANSACTIONAL_ID).transaction_state == "PrepareCommit"
    return Producer(answer.producer_id, answer.producer_epoch)


def test_an_end_does_not_wait_for_a_tick(node: Node) -> None:
    client = node.connect()
    ended_without_its_marker(node, client)
    node.let_go()
    assert described(client, TRANSACTIONAL_ID).transaction_state == "CompleteCommit"


def test_the_next_transaction_begins_as_soon_as_the_last_one_is_complete(node: Node) -> None:
    client = node.connect()
    producer = ended_without_its_marker(node, client)
    asked = node.broker.verifier.times.requests
    client.send(first_of(producer), 12)
    assert not client.answers
    assert node.broker.verifier.times.requests == asked, "a coordinator here need not be asked what it would say"
    node.let_go()  # and no time passes
    assert written(client) is ErrorCode.NONE
    assert described(client, TRANSACTIONAL_ID).transaction_state == "Ongoing"
    node.advance(2 * BACKOFF_MS)
    assert not client.answers


def test_what_the_backoff_has_taken_up_again_is_not_begun_twice(node: Node) -> None:
    client = node.connect()
    producer = ended_without_its_marker(node, client)
    client.send(first_of(producer), 12)
    node.advance(2 * BACKOFF_MS)  # asks again in between, and is told again to wait
    assert not client.answers
    node.let_go()
    assert written(client) is ErrorCode.NONE
    assert not client.answers
