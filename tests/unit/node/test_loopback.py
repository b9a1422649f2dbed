"""A node that calls itself: through its own handlers, without a socket."""

from __future__ import annotations

from typing import Any

from support.broker import Node

from penstock.node.outgoing import Peer
from penstock.protocol.messages.metadata_request import MetadataRequest


def test_a_node_calls_itself_through_its_own_handlers() -> None:
    node = Node()
    me = Peer(node.broker.node_id, "127.0.0.1", 9092, "PLAINTEXT")
    answers: list[tuple[Any, str | None]] = []
    for _ in range(2):
        node.broker.calls.outgoing.call(
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
    node.broker.calls.outgoing.call(
        me, request, timeout_ms=1_000, done=lambda _, reason, now_ms: reasons.append(reason), now_ms=node.now_ms
    )
    node.run()
    node.stop()
    node.broker.calls.outgoing.call(
        me, request, timeout_ms=1_000, done=lambda _, reason, now_ms: reasons.append(reason), now_ms=node.now_ms
    )
    node.run()
    assert reasons == [None, "this node is stopping"]


def test_an_api_that_a_listener_does_not_serve_is_refused_by_name() -> None:
    node = Node()
    me = Peer(node.broker.node_id, "127.0.0.1", 9093, "CONTROLLER")
    reasons: list[str | None] = []
    node.broker.calls.outgoing.call(
        me,
        MetadataRequest(topics=None),
        timeout_ms=1_000,
        done=lambda _, reason, now_ms: reasons.append(reason),
        now_ms=node.now_ms,
    )
    node.run()
    node.settle()
    assert reasons == ["node 1 at 127.0.0.1:9093 serves no version of Metadata, we know 0 to 13"]
