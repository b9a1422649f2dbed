"""InitProducerId: ids from the controller's blocks."""

from __future__ import annotations

import pytest
from support.broker import Client, Node

from penstock.errors import ErrorCode
from penstock.metadata.producer_ids import BLOCK_IDS
from penstock.protocol.messages.init_producer_id_request import InitProducerIdRequest


def asked(client: Client, version: int = 5, transactional_id: str | None = None, **fields: int) -> tuple[int, int, int]:
    request = InitProducerIdRequest(transactional_id=transactional_id, **{"transaction_timeout_ms": 1000, **fields})
    answer = client.ask(request, version)
    return answer.error_code, answer.producer_id, answer.producer_epoch


@pytest.mark.parametrize("version", range(6))
def test_every_producer_gets_an_id_of_its_own(version: int) -> None:
    client = Node().connect()
    found = [asked(client, version) for _ in range(3)]
    assert {(code, epoch) for code, _, epoch in found} == {(0, 0)}
    assert len({producer_id for _, producer_id, _ in found}) == 3


def test_ids_go_on_over_blocks_and_restarts_and_none_is_given_twice() -> None:
    node = Node()
    client = node.connect()
    ids = [asked(client)[1] for _ in range(BLOCK_IDS + 10)]
    node.restart()
    client = node.connect()
    ids += [asked(client)[1] for _ in range(10)]
    node.crash()
    client = node.connect()
    ids += [asked(client)[1] for _ in range(10)]
    assert len(set(ids)) == len(ids)


def test_a_request_waits_for_its_block_to_be_committed() -> None:
    node = Node()
    client = node.connect()
    node.held = lambda operation: "__cluster_metadata" in operation.order
    client.send(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0), 4)
    assert not client.answers
    node.let_go()
    assert client.receive().error_code == 0


def test_a_block_that_does_not_come_ends_in_a_retriable_error() -> None:
    node = Node()
    client = node.connect()
    node.held = lambda operation: "__cluster_metadata" in operation.order
    client.send(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0), 4)
    node.advance(node.settings.request_timeout_ms + 10)
    assert client.receive().error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_an_id_that_is_brought_along_is_replaced_as_kafka_does() -> None:
    client = Node().connect()
    _, first, _ = asked(client)
    code, second, epoch = asked(client, producer_id=first, producer_epoch=3)
    assert (code, epoch) == (0, 0)
    assert second != first


def test_what_is_invalid() -> None:
    client = Node().connect()
    assert asked(client, producer_id=5)[0] == ErrorCode.INVALID_REQUEST
    assert asked(client, producer_epoch=5)[0] == ErrorCode.INVALID_REQUEST
    assert asked(client, transactional_id="")[0] == ErrorCode.INVALID_REQUEST
    assert asked(client, transactional_id="tx", transaction_timeout_ms=0)[0] == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    answer = asked(client, transactional_id="tx", transaction_timeout_ms=1)
    assert answer == (ErrorCode.NOT_COORDINATOR, -1, -1), "nobody has looked for the coordinator so far"
