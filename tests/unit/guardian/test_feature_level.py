"""Upgraded node by node: what a newer version writes waits until every node knows it, and somebody says so."""

from __future__ import annotations

import json
from typing import Any, get_args
from uuid import UUID

from unit.guardian.test_node import CLICKS, Nodes, body_of

from penstock.errors import StorageError
from penstock.guardian.core import levels
from penstock.guardian.core.records import FEATURE_LEVEL, GuardianRecord
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.api_versions_response import ApiVersionsResponse, SupportedFeatureKey
from penstock.protocol.messages.own.guardian_call_request import GuardianCallRequest

USER = {"name": "ann", "roles": [{"role": "viewer"}]}
"""A user is a record of level 2."""


class Upgraded(Nodes):
    """Nodes of which some are of an older version."""

    def __init__(self, nodes: int, old: tuple[int, ...] = ()) -> None:
        super().__init__(nodes)
        for machine in self.machines:
            machine.knows = 1 if machine.guardian.penstock_guardian_node_id in old else FEATURE_LEVEL

    def restart(self, node_id: int, *, knows: int) -> None:
        """Stops a node and starts it with another version."""
        machine = self.machines[node_id - 1]
        machine.restart_delay_ms = None
        machine.kill()
        self.run(200)
        machine.knows = knows
        machine.start()
        self.run(3_000)

    def level(self, *, of: int = 1) -> int:
        return int(body_of(self.call("GET", "/v1/feature", of=of))["level"])

    def upgrade(self, level: int | None = None, *, of: int = 1) -> Any:
        return self.call("PATCH", "/v1/feature", {} if level is None else {"level": level}, of=of)


def error_of(response: Any) -> str:
    return str(body_of(response)["error"])


def test_every_type_of_record_has_a_level() -> None:
    assert set(levels.LEVELS) == set(get_args(GuardianRecord))
    assert set(levels.LEVELS.values()) == set(range(1, FEATURE_LEVEL + 1))


def test_a_new_log_begins_at_the_highest_level() -> None:
    nodes = Upgraded(1).start()
    assert body_of(nodes.call("GET", "/v1/feature")) == {"level": FEATURE_LEVEL, "knows": FEATURE_LEVEL}
    assert nodes.call("POST", "/v1/users", USER).status == 201


def test_three_nodes_are_upgraded_one_by_one() -> None:
    nodes = Upgraded(3, old=(1, 2, 3)).start()
    assert nodes.call("POST", "/v1/clusters", CLICKS).status == 201
    for node_id in (1, 2):
        nodes.restart(node_id, knows=FEATURE_LEVEL)
    assert nodes.level() == 1
    for of in (1, 2, 3):
        refused = nodes.upgrade(of=of)
        assert (refused.status, body_of(refused)) == (200, {"level": 1, "knows": body_of(refused)["knows"]})
        refused = nodes.upgrade(2, of=of)
        assert refused.status == 409
        assert error_of(refused) == "node 3 knows feature levels up to 1: upgrade it before level 2"
    refused = nodes.call("POST", "/v1/users", USER)
    assert refused.status == 409
    assert error_of(refused).startswith("this needs feature level 2, and the log is at 1: upgrade every node, then")
    nodes.restart(3, knows=FEATURE_LEVEL)
    assert body_of(nodes.upgrade(of=2)) == {"level": 2, "knows": 2}
    nodes.run(500)
    assert [nodes.level(of=of) for of in (1, 2, 3)] == [2, 2, 2]
    assert nodes.call("POST", "/v1/users", USER).status == 201
    assert nodes.upgrade(1).status == 409
    assert [each["command"] for each in body_of(nodes.call("GET", "/v1/audit"))["changes"]].count(
        "PATCH /v1/feature"
    ) >= 2


def test_a_node_that_does_not_run_holds_the_level_back() -> None:
    nodes = Upgraded(3, old=(1, 2, 3)).start()
    for node_id in (1, 2):
        nodes.restart(node_id, knows=FEATURE_LEVEL)
    last = nodes.machines[2]
    last.restart_delay_ms = None
    last.kill()
    nodes.run(4_000)
    for level in (None, 2):
        refused = nodes.upgrade(level)
        assert refused.status == 409
        assert error_of(refused) == "node 3 did not say which feature levels it knows: every node must run"
    assert nodes.level() == 1


def test_a_node_that_is_too_old_stops_and_says_so() -> None:
    nodes = Upgraded(3, old=(3,))
    *_, old = nodes.machines
    for each in nodes.machines[:2]:
        each.start()
    nodes.run(3_000)
    old.restart_delay_ms = None
    old.start()
    nodes.run(2_000)
    assert isinstance(old.node.failure, StorageError)
    assert str(old.node.failure) == (
        "Guardian's log is at feature level 2, this version knows 1: upgrade this node before it goes on"
    )
    assert [each.node.failure for each in nodes.machines[:2]] == [None, None]
    assert nodes.call("POST", "/v1/clusters", CLICKS).status == 201


def test_a_level_that_is_none_is_refused() -> None:
    nodes = Upgraded(1).start()
    assert [nodes.call("PATCH", "/v1/feature", {"level": each}).status for each in ("2", True, 99, 1)] == [
        400, 400, 409, 409,
    ]  # fmt: skip
    assert nodes.call("DELETE", "/v1/feature", {}).status == 405
    assert nodes.call("PATCH", "/v1/feature/x", {}).status == 404


def test_a_repeated_upgrade_is_told_what_became_of_it() -> None:
    nodes = Upgraded(1, old=(1,)).start()
    nodes.restart(1, knows=FEATURE_LEVEL)
    request = GuardianCallRequest(
        method="PATCH", path="/v1/feature", body=json.dumps({}).encode(), request_id=UUID(int=77)
    )
    assert [body_of(nodes.ask(request))["level"] for _ in range(2)] == [2, 2]


def test_what_a_node_says_of_its_levels() -> None:
    nodes = Upgraded(1).start()
    answer = nodes.ask(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3)
    assert levels.known_by(answer) == FEATURE_LEVEL
    assert levels.known_by(ApiVersionsResponse()) == 1, "from before there were levels to tell of"
    assert (
        levels.known_by(ApiVersionsResponse(supported_features=[SupportedFeatureKey(name="other", max_version=9)])) == 1
    )
