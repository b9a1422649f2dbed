"""Envelope: what a broker passes on is executed as if the client had asked the controller itself."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

import pytest
from support.broker import Node
from support.quotas import quota

from penstock.errors import ErrorCode, ProtocolError
from penstock.node.channel import deserialized, serialized
from penstock.protocol import frames
from penstock.protocol.api import API_BY_NUMBER
from penstock.protocol.message import Message
from penstock.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.envelope_request import EnvelopeRequest
from penstock.protocol.messages.envelope_response import EnvelopeResponse
from penstock.protocol.messages.metadata_request import MetadataRequest
from penstock.security.authorizer import ANONYMOUS, AclOperation, AllowAll, Principal, ResourceType

ALICE = Principal("User", "alice")


def create(name: str) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)])


def ask(node: Node, data: bytes, principal: bytes | None = None) -> EnvelopeResponse:
    client = node.connect("CONTROLLER")
    request = EnvelopeRequest(
        request_data=data,
        request_principal=serialized(ALICE) if principal is None else principal,
        client_host_address=ip_address("10.0.0.7").packed,
    )
    answer: EnvelopeResponse = client.ask(request, 0)
    return answer


def framed(message: Message, version: int, correlation_id: int = 7) -> bytes:
    chunks: Any = frames.encode_request(API_BY_NUMBER[message.KEY], version, correlation_id, "client", message)
    return b"".join(chunks)[4:]


def test_the_request_inside_is_answered_inside() -> None:
    node = Node()
    answer = ask(node, framed(create("t"), 7))
    assert answer.error_code == ErrorCode.NONE
    assert answer.response_data is not None
    api = API_BY_NUMBER[CreateTopicsRequest.KEY]
    correlation_id, inner = frames.decode_response(api, 7, memoryview(bytearray(answer.response_data)))
    assert correlation_id == 7
    assert [(topic.name, topic.error_code) for topic in inner.topics] == [("t", 0)]  # type: ignore[attr-defined]
    assert "t" in node.broker.image.topics_by_name
    assert sum(each.listener == "CONTROLLER" and each.id > 0 for each in node.broker.connections.values()) == 1
    assert min(node.broker.connections) > -1000, "what stood for the client is gone"


def test_it_is_authorized_with_the_principal_of_the_client() -> None:
    asked: list[tuple[Principal, AclOperation, ResourceType]] = []
    hosts: list[str] = []

    class Records(AllowAll):
        def authorize(
            self, principal: Principal, host: str, operation: AclOperation, resource: ResourceType, name: str
        ) -> bool:
            asked.append((principal, operation, resource))
            hosts.append(host)
            return True

    node = Node(authorizer=Records())
    asked.clear()
    hosts.clear()
    ask(node, framed(create("t"), 7))
    assert asked[0] == (ANONYMOUS, AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER), "the broker may forward"
    assert {principal for principal, _, _ in asked[1:]} == {ALICE}
    assert hosts[0] == "127.0.0.1"
    assert set(hosts[-len(asked) + 1 :]) == {"10.0.0.7"}


@pytest.mark.parametrize(
    ("data", "principal", "code"),
    [
        (framed(MetadataRequest(), 12), None, ErrorCode.INVALID_REQUEST),
        (b"", None, ErrorCode.INVALID_REQUEST),
        (framed(create("t"), 7)[:-4], None, ErrorCode.INVALID_REQUEST),
        (framed(create("t"), 7), b"\0\7", ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (framed(create("t"), 7), b"", ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
    ],
)
def test_what_cannot_be_executed_is_refused(data: bytes, principal: bytes | None, code: ErrorCode) -> None:
    node = Node()
    assert ask(node, data, principal).error_code == code
    assert not node.broker.image.topics_by_name


def test_a_version_that_is_not_served_is_refused() -> None:
    data = bytearray(framed(create("t"), 7))
    data[2:4] = (99).to_bytes(2, "big")
    assert ask(Node(), bytes(data)).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_who_is_not_the_active_controller_says_so() -> None:
    node = Node()
    node.broker.controller.active = False
    assert ask(node, framed(create("t"), 7)).error_code == ErrorCode.NOT_CONTROLLER


def test_who_loses_the_leadership_before_the_commit_has_the_broker_ask_again() -> None:
    node = Node()
    node.held = lambda operation: type(operation).__name__ in ("Write", "Flush")
    client = node.connect("CONTROLLER")
    request = EnvelopeRequest(
        request_data=framed(create("t"), 7), request_principal=serialized(ALICE), client_host_address=b""
    )
    client.send(request, 0)
    assert not client.answers
    node.broker.controller.renounce(node.now_ms)
    node.run()
    assert client.receive().error_code == ErrorCode.NOT_CONTROLLER


def test_a_principal_is_read_as_it_was_written() -> None:
    assert serialized(ALICE) == b"\0\0\x05User\x06alice\0\0"
    assert deserialized(serialized(ALICE)) == ALICE
    with pytest.raises(ProtocolError):
        deserialized(b"\0\0\x05Us")


def test_its_time_counts_for_the_client_and_the_broker_is_not_held_up() -> None:
    node = Node()
    node.change(
        [quota("request_percentage", 0.001, user="alice"), quota("request_percentage", 0.001, user="ANONYMOUS")]
    )
    broker, waits = node.connect("CONTROLLER"), []
    request = EnvelopeRequest(
        request_data=framed(create("t"), 7),
        request_principal=serialized(ALICE),
        client_host_address=ip_address("10.0.0.7").packed,
    )
    for _ in range(4):
        answer = broker.ask(request, 0)
        api = API_BY_NUMBER[CreateTopicsRequest.KEY]
        _, inner = frames.decode_response(api, 7, memoryview(bytearray(answer.response_data)))
        waits.append(inner.throttle_time_ms)  # type: ignore[attr-defined]
        assert not broker.paused
    assert max(waits) > 0
    assert {usage.user for usage in node.broker.quotas.usages.kept.values()} == {"alice"}
