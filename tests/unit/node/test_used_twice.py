"""Two processes with one node id: the second is refused while the first lives; a first that was replaced ends."""

from __future__ import annotations

from uuid import UUID

import pytest
from support.broker import CLUSTER_ID, Node

from penstock.errors import ErrorCode
from penstock.metadata.result import MetadataMessage
from penstock.protocol.messages.broker_registration_request import BrokerRegistrationRequest, Feature, Listener
from penstock.protocol.messages.metadata import register_broker_record, register_controller_record
from penstock.protocol.messages.metadata.fence_broker_record import FenceBrokerRecord
from penstock.protocol.messages.metadata.register_broker_record import RegisterBrokerRecord
from penstock.protocol.messages.metadata.register_controller_record import RegisterControllerRecord

ANOTHER = UUID(int=0xA07)


@pytest.fixture
def node() -> Node:
    return Node()


def append(node: Node, *records: MetadataMessage) -> None:
    """As if the controller had decided so."""
    node.broker.controller.append(records, lambda now_ms: None, lambda code, now_ms: None, node.now_ms)
    node.run()
    node.settle()


def broker_record(node: Node, *, incarnation_id: UUID = ANOTHER) -> RegisterBrokerRecord:
    endpoint = register_broker_record.BrokerEndpoint(name="PLAINTEXT", host="elsewhere", port=9092)
    return RegisterBrokerRecord(
        broker_id=1,
        incarnation_id=incarnation_id,
        broker_epoch=node.broker.controller.next_offset,
        end_points=[endpoint],
        fenced=True,
    )


def test_the_second_is_refused_while_the_first_lives(node: Node) -> None:
    request = BrokerRegistrationRequest(
        broker_id=1,
        cluster_id=CLUSTER_ID,
        incarnation_id=ANOTHER,
        listeners=[Listener(name="PLAINTEXT", host="elsewhere", port=9092)],
        features=[Feature(name="metadata.version", min_supported_version=25, max_supported_version=30)],
        log_dirs=[UUID(int=0xD1)],
    )
    answer = node.connect("CONTROLLER").ask(request, 4)
    assert answer.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert node.broker.ready
    assert node.broker.failure is None


def test_a_broker_that_was_replaced_ends_and_says_by_whom(node: Node) -> None:
    append(node, broker_record(node))
    assert "another process has registered as broker 1 (elsewhere:9092)" in str(node.broker.failure)
    assert "node.id" in str(node.broker.failure)


def test_a_controller_that_was_replaced_ends_too(node: Node) -> None:
    endpoint = register_controller_record.ControllerEndpoint(name="CONTROLLER", host="elsewhere", port=9093)
    append(node, RegisterControllerRecord(controller_id=1, incarnation_id=ANOTHER, end_points=[endpoint]))
    assert "another process has registered as controller 1 (elsewhere:9093)" in str(node.broker.failure)


def test_a_broker_that_is_only_fenced_goes_on(node: Node) -> None:
    epoch = node.broker.state.broker_epoch
    append(node, FenceBrokerRecord(id=1, epoch=epoch))
    assert node.broker.image.brokers[1].fenced
    assert node.broker.failure is None


def test_a_restart_is_no_second_process(node: Node) -> None:
    node.restart()
    node.crash()
    assert node.broker.failure is None
    assert node.broker.ready
