"""Markers that a partition's leader refuses, or that nobody can take: how often they come, and who waits for them."""

from __future__ import annotations

from typing import Any

from support.broker import Node
from support.transaction_requests import ALONE, add, begin, coordinate, described, end

from penstock.errors import ErrorCode
from penstock.node.broker import Broker
from penstock.node.handlers import write_txn_markers
from penstock.node.request import Handler, Outcome, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.write_txn_markers_request import WriteTxnMarkersRequest


class RefusingLeader:
    """Answers every marker with `says`, and counts the requests."""

    def __init__(self) -> None:
        self.says = ErrorCode.NOT_ENOUGH_REPLICAS
        self.asked: list[WriteTxnMarkersRequest] = []

    def node(self, **settings: Any) -> Node:
        node = Node(
            handlers={ApiKey.WRITE_TXN_MARKERS: Handler(ApiKey.WRITE_TXN_MARKERS, self.handle)}, **ALONE, **settings
        )
        node.create_topic("t")
        coordinate(node)
        return node

    def handle(self, node: Broker, request: Request[WriteTxnMarkersRequest], now_ms: int) -> Outcome:
        self.asked.append(request.body)
        return write_txn_markers.refuse(request, self.says, "")


def test_a_marker_that_is_refused_again_and_again_comes_less_and_less_often_until_it_is_taken() -> None:
    leader = RefusingLeader()
    node = leader.node()
    client = node.connect()
    producer = begin(client)
    client.ask(add(producer, ("t", 0)), 3)
    client.ask(end(producer), 5)
    node.advance(350)
    assert len(leader.asked) == 3
    node.advance(60_000)
    assert 55 <= len(leader.asked) <= 66
    leader.says = ErrorCode.NONE
    node.advance(1_500)
    assert described(client).transaction_state == "CompleteCommit"
