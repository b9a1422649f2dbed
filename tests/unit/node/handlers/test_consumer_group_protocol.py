"""KIP-848's requests where the protocol is not served: the setting leaves it out, or the cluster's level is too low."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from support.broker import Node

from penstock.errors import ErrorCode
from penstock.node.handlers.group_coordinator import context_of
from penstock.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from penstock.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from penstock.security.authorizer import Principal

HEARTBEAT = ConsumerGroupHeartbeatRequest(
    group_id="g",
    member_id="m",
    rebalance_timeout_ms=1000,
    subscribed_topic_names=["t"],
    topic_partitions=[],
)
DESCRIBE = ConsumerGroupDescribeRequest(group_ids=["g"])


@pytest.mark.parametrize(
    "node", [{"features": {"group.version": 0}}, {"group_coordinator_rebalance_protocols": ("classic",)}], ids=str
)
def test_consumer_groups_are_refused_where_they_are_not_served(node: dict[str, Any]) -> None:
    client = Node(**node).connect()
    assert client.ask(HEARTBEAT, 1).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [group.error_code for group in client.ask(DESCRIBE, 1).groups] == [ErrorCode.UNSUPPORTED_VERSION]


def test_a_new_cluster_serves_them() -> None:
    client = Node().connect()
    assert client.ask(HEARTBEAT, 1).error_code == ErrorCode.NOT_COORDINATOR, "there is no group topic yet"
    assert [group.error_code for group in client.ask(DESCRIBE, 1).groups] == [ErrorCode.NOT_COORDINATOR]


def test_the_coordinator_is_told_who_asks_since_each_has_a_share_of_the_turns() -> None:
    connection, alice = SimpleNamespace(client_host="/127.0.0.1"), Principal("User", "alice")
    request: Any = SimpleNamespace(version=1, client_id="c", connection=connection, principal=alice)
    assert context_of(request).principal == "alice"
