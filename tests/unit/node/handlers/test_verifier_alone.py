"""What waits to be verified by a coordinator that is no broker any more."""

from __future__ import annotations

import pytest
from support.transactions import ScriptedCoordinator, in_transaction, transactional

from penstock.errors import ErrorCode
from penstock.node import verification
from penstock.node.state import NodeState


def test_when_the_coordinator_has_gone_everybody_who_waits_for_it_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator = ScriptedCoordinator()
    node = coordinator.node()
    node.create_topic("orders")
    coordinator.silent = True
    monkeypatch.setattr(verification, "VERIFICATIONS_PER_REQUEST_MAX", 1)
    clients = [node.connect() for _ in range(4)]
    for number, client in enumerate(clients):
        request = in_transaction("orders", transactional(producer_id=number), acks=1)
        request.transactional_id = f"producer-{number}"
        client.send(request, 12)
    assert len(coordinator.asked) == 1
    monkeypatch.setattr(NodeState, "peer", lambda state, broker_id: None)
    coordinator.let_go(node)
    node.advance(1)
    codes = [client.receive().responses[0].partition_responses[0].error_code for client in clients]
    assert codes == [ErrorCode.NONE] + [ErrorCode.NOT_ENOUGH_REPLICAS] * 3
