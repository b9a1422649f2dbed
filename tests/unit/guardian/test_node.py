"""Whole Guardian nodes without sockets: what they answer to frames, to strangers, and to nodes of another Guardian."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest

from penstock.errors import ErrorCode
from penstock.guardian.core import identity
from penstock.guardian.core.calls import Call
from penstock.guardian.core.front import Front
from penstock.protocol.message import Message
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from penstock.protocol.messages.metadata_request import MetadataRequest
from penstock.protocol.messages.own.guardian_call_request import GuardianCallRequest
from penstock.raft import messages
from penstock.raft.states import Leader
from penstock.raft.topic import GUARDIAN, METADATA, QuorumTopic
from penstock.raft.voters import ReplicaKey
from simulator.guardian.machine import GuardianMachine, settings_of
from simulator.node.client import Client
from simulator.world.driver import Simulation
from simulator.world.network import Network

CLICKS = {"name": "clicks", "bootstrap": ["10.0.0.7:9092"]}
SECURED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}


class Nodes:
    """Some nodes in virtual time, and a client."""

    def __init__(self, nodes: int = 1, settings: Mapping[str, str] = MappingProxyType({})) -> None:
        self.simulation = Simulation(1)
        self.network = Network(self.simulation)
        self.machines = [
            GuardianMachine(self.simulation, settings_of(each, nodes, **settings), self.network)
            for each in range(1, nodes + 1)
        ]
        self.client = Client(self.simulation, self.machines[0], "client")
        self.ids = 0

    def start(self) -> Nodes:
        for machine in self.machines:
            machine.start()
        self.run(3_000)
        return self

    def run(self, milliseconds: int) -> None:
        self.simulation.run(self.simulation.now_ms + milliseconds)

    def ask(self, message: Message, version: int = 0, *, of: int = 1) -> Any:
        """The answer of a node; None: it closed the connection."""
        found: list[Any] = []
        self.client.machine = self.machines[of - 1]
        self.client.ask(message, version, found.append)
        self.run(2_000)
        return found[0]

    def call(self, method: str, path: str, body: Any = None, *, of: int = 1, **more: Any) -> Any:
        self.ids += 1
        request = GuardianCallRequest(
            method=method, path=path, body=json.dumps(body).encode(), request_id=UUID(int=self.ids), **more
        )
        return self.ask(request, of=of)

    @property
    def leader(self) -> GuardianMachine:
        (found,) = [each for each in self.machines if each.running and each.node.may_act(each.now_ms)]
        return found


def body_of(response: Any) -> Any:
    return json.loads(bytes(response.body))


def test_a_node_alone_leads_and_knows_how_old_its_state_is() -> None:
    nodes = Nodes().start()
    added = nodes.call("POST", "/v1/clusters", CLICKS)
    assert (added.error_code, added.status, added.answered_by, added.leader_id, added.age_ms) == (0, 201, 1, 1, 0)
    read = nodes.call("GET", "/v1/clusters")
    assert [each["name"] for each in body_of(read)["clusters"]] == ["clicks"]
    assert nodes.machines[0].node.ready


def test_a_follower_hands_a_change_on_with_its_requester_and_reads_itself() -> None:
    nodes = Nodes(3).start()
    leader_id = nodes.leader.node.node_id
    follower_id = next(each for each in (1, 2, 3) if each != leader_id)
    added = nodes.call("POST", "/v1/clusters", CLICKS, of=follower_id)
    assert (added.status, added.answered_by) == (201, leader_id)
    nodes.run(500)
    read = nodes.call("GET", "/v1/clusters", of=follower_id)
    assert read.answered_by == follower_id
    assert 0 <= read.age_ms < 500
    assert [each["name"] for each in body_of(read)["clusters"]] == ["clicks"]
    (change,) = body_of(nodes.call("GET", "/v1/audit", of=follower_id))["changes"]
    assert change["principal"] == "User:ANONYMOUS"


def test_a_follower_without_a_leader_says_how_old_its_state_is_and_takes_no_change() -> None:
    nodes = Nodes(3).start()
    nodes.call("POST", "/v1/clusters", CLICKS)
    nodes.run(500)
    last = nodes.machines[0]
    for each in nodes.machines[1:]:
        each.restart_delay_ms = None
        each.kill()
    nodes.run(10_000)
    read = nodes.call("GET", "/v1/clusters")
    assert read.status == 200
    assert 10_000 <= read.age_ms < 14_000
    assert body_of(read)["clusters"]
    refused = nodes.call("POST", "/v1/clusters", {**CLICKS, "name": "other"})
    assert refused.status == 503
    assert not last.node.may_act(last.now_ms)


def test_a_leader_knows_over_which_connection_its_answers_went() -> None:
    """Its lease hangs on it: an answer over a connection that broke may be lost."""
    nodes = Nodes(3).start()
    leader = nodes.leader.node
    role = leader.quorum._replica.role
    assert isinstance(role, Leader)
    links = [each.answered_link for node_id, each in role.voters.items() if node_id != leader.node_id]
    assert len(links) == 2
    assert all(link in leader.connections for link in links)


def test_a_node_that_knows_nothing_yet_says_so() -> None:
    nodes = Nodes(3)
    nodes.machines[0].start()
    nodes.run(1_000)
    read = nodes.call("GET", "/v1/clusters")
    assert (read.status, read.age_ms) == (503, -1)
    assert "nothing is known yet" in body_of(read)["error"]
    assert not nodes.machines[0].node.ready


def test_who_takes_another_node_for_the_leader_is_told() -> None:
    """Nothing is handed on twice."""
    nodes = Nodes(3).start()
    follower_id = next(each for each in (1, 2, 3) if each != nodes.leader.node.node_id)
    refused = nodes.call("POST", "/v1/clusters", CLICKS, of=follower_id, on_behalf_of="User:ann")
    assert (refused.status, refused.answered_by) == (503, follower_id)
    assert "no leader is known" in body_of(refused)["error"]


def test_changes_that_wait_for_the_leader_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = Nodes(3).start()
    follower_id = next(each for each in (1, 2, 3) if each != nodes.leader.node.node_id)
    front: Front = nodes.machines[follower_id - 1].node.front
    monkeypatch.setattr("penstock.guardian.core.front.GUARDIAN_HANDED_ON_MAX", 0)
    assert nodes.call("POST", "/v1/clusters", CLICKS, of=follower_id).status == 429
    assert front.handed_on == 0


def test_strangers_may_nothing_where_an_authorizer_is_set() -> None:
    nodes = Nodes(settings=SECURED).start()
    for method, path in (("GET", "/v1/clusters"), ("POST", "/v1/clusters")):
        refused = nodes.call(method, path, CLICKS)
        assert (refused.error_code, refused.status) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, 0)
    vote = messages.vote(
        None, ReplicaKey(2), ReplicaKey(1), 99, last_epoch=3, end_offset=9, pre_vote=False, topic=GUARDIAN
    )
    assert nodes.ask(vote, 2).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert nodes.machines[0].node.quorum.epoch < 99


def test_nodes_log_in_to_each_other() -> None:
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    secured = {
        **SECURED,
        "super.users": "User:node",
        "penstock.guardian.security.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.guardian.plain.sasl.jaas.config": f'{login} username="node" password="a" user_node="a";',
    }
    nodes = Nodes(3, secured).start()
    assert nodes.leader.node.quorum.state.feature_level == 1
    assert nodes.call("GET", "/v1/clusters") is None, "who has not logged in is not answered"


def test_a_name_may_be_borrowed_by_nodes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = Nodes(settings={**SECURED, "allow.everyone.if.no.acl.found": "true"}).start()
    gate = nodes.machines[0].node.gate
    real = type(gate).allows
    monkeypatch.setattr(
        type(gate), "allows", lambda one, request, right, *more: right.operation.name != "CLUSTER_ACTION"
        and real(one, request, right, *more)
    )  # fmt: skip
    assert nodes.call("POST", "/v1/clusters", CLICKS, on_behalf_of="User:boss").error_code != 0
    assert nodes.call("POST", "/v1/clusters", CLICKS).status == 201


USER = {"name": "ANONYMOUS", "roles": [{"role": "operator", "cluster": "clicks"}]}


def as_boss(nodes: Nodes, method: str, path: str, body: Any = None, *, of: int = 1) -> Any:
    """The answer to a call that one node hands on to another for a super user."""
    return nodes.call(method, path, body, of=of, on_behalf_of="User:admin")


def secured(monkeypatch: pytest.MonkeyPatch, nodes: int = 1) -> Nodes:
    """Nodes with an authorizer, who take whoever asks for a node when he asks on behalf of somebody."""
    found = Nodes(nodes, SECURED)
    for machine in found.machines:
        machine.start()
        gate = machine.node.gate
        real = type(gate).allows
    monkeypatch.setattr(
        type(gate), "allows", lambda one, request, right, *more: right.operation.name == "CLUSTER_ACTION"
        or real(one, request, right, *more)
    )  # fmt: skip
    found.run(3_000)
    return found


def test_a_user_of_the_name_of_a_principal_may_do_what_its_roles_let_it(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = secured(monkeypatch)
    for name in ("clicks", "views"):
        assert as_boss(nodes, "POST", "/v1/clusters", {"name": name, "bootstrap": [f"{name}:1"]}).status == 201
    refused = nodes.call("GET", "/v1/clusters")
    assert (refused.error_code, refused.status) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, 0)
    assert as_boss(nodes, "POST", "/v1/users", USER).status == 201
    assert [each["name"] for each in body_of(nodes.call("GET", "/v1/clusters"))["clusters"]] == ["clicks"]
    heal = {"modes": {"heal": "act"}}
    assert nodes.call("PATCH", "/v1/clusters/clicks", heal).status == 200
    assert nodes.call("PATCH", "/v1/clusters/views", heal).status == 404
    assert nodes.call("POST", "/v1/clusters", CLICKS).status == 403
    assert nodes.call("POST", "/v1/users", {**USER, "name": "me"}).status == 403
    assert as_boss(nodes, "DELETE", "/v1/users/ANONYMOUS").status == 200
    assert nodes.call("GET", "/v1/clusters").error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_a_name_that_is_handed_on_has_the_rights_of_the_name_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader asks its own settings who is a super user, and never so for one that came by a token."""
    nodes = secured(monkeypatch)
    assert nodes.call("POST", "/v1/clusters", CLICKS, on_behalf_of="User:ann").status == 403
    assert nodes.call("POST", "/v1/clusters", CLICKS, on_behalf_of="User:admin", token_id="x" * 16).status == 401
    as_boss(nodes, "POST", "/v1/users", {"name": "admin", "roles": [{"role": "viewer"}]})
    token_id = body_of(as_boss(nodes, "POST", "/v1/tokens", {"user": "admin"}))["id"]
    assert nodes.call("GET", "/v1/clusters", on_behalf_of="User:admin", token_id=token_id).status in (200, 503)
    assert nodes.call("POST", "/v1/clusters", CLICKS, on_behalf_of="User:admin", token_id=token_id).status == 403
    assert nodes.call("POST", "/v1/clusters", CLICKS, on_behalf_of="User:admin").status == 201


def test_a_follower_hands_a_change_on_with_the_token_that_its_requester_came_by(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodes = secured(monkeypatch, 3)
    leader_id = nodes.leader.node.node_id
    follower_id = next(each for each in (1, 2, 3) if each != leader_id)
    as_boss(nodes, "POST", "/v1/users", {"name": "ann", "roles": [{"role": "admin"}]}, of=leader_id)
    token = body_of(as_boss(nodes, "POST", "/v1/tokens", {"user": "ann"}, of=leader_id))
    nodes.run(1_000)
    follower = nodes.machines[follower_id - 1]
    found: list[Any] = []

    def ask(number: int, body: Any) -> Any:
        call = Call("POST", "/v1/clusters", json.dumps(body).encode(), UUID(int=number), "User:ann", token["id"])
        follower.on_loop(lambda: follower.node.ask(call, lambda answer, at_ms: found.append(answer), follower.now_ms))
        nodes.run(2_000)
        return found.pop()

    added = ask(901, CLICKS)
    assert (added.status, added.answered_by) == (201, leader_id)
    as_boss(nodes, "DELETE", f"/v1/tokens/{token['id']}", of=leader_id)
    refused = ask(902, {**CLICKS, "name": "other"})
    assert (refused.status, refused.answered_by) == (401, leader_id)
    assert (found, next(iter(nodes.leader.node.quorum.state.clusters.values())).name) == ([], "clicks")


def test_nodes_of_another_guardian_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = Nodes(3)
    monkeypatch.setattr("simulator.guardian.machine.GUARDIAN_ID", "AAAAAAAAQACAAAAAAAAAAQ")
    other = Nodes(3).machines[2].disks[0].content(identity.FILE)
    nodes.machines[2].disks[0].replace(identity.FILE, other)
    nodes.start()
    assert nodes.leader.node.node_id in (1, 2)
    assert nodes.call("POST", "/v1/clusters", CLICKS).status == 201
    nodes.run(5_000)
    assert nodes.machines[2].node.quorum.state.clusters == {}


def test_a_clean_stop_hands_the_leadership_over() -> None:
    nodes = Nodes(3).start()
    leader = nodes.leader
    before_ms = nodes.simulation.now_ms
    leader.shutdown()
    while leader.running or not any(each.running and each.node.quorum.leads for each in nodes.machines):
        nodes.run(10)
    assert nodes.simulation.now_ms - before_ms < 200
    assert leader.node.failure is None


@pytest.mark.parametrize(
    ("topic", "code"), [(GUARDIAN, ErrorCode.NONE), (METADATA, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
)
def test_the_quorum_is_described(topic: QuorumTopic, code: ErrorCode) -> None:
    nodes = Nodes().start()
    asked = TopicData(topic_name=topic.name, partitions=[PartitionData(partition_index=0)])
    (found,) = nodes.ask(DescribeQuorumRequest(topics=[asked]), 2).topics[0].partitions
    assert found.error_code == code
    assert code or [each.replica_id for each in found.current_voters] == [1]


def test_apis_of_brokers_are_not_served() -> None:
    nodes = Nodes().start()
    served = {each.api_key for each in nodes.ask(ApiVersionsRequest(), 0).api_keys}
    assert 30_100 in served
    assert MetadataRequest.KEY not in served
    assert nodes.ask(MetadataRequest(), 9) is None


def test_what_only_the_leader_sees_is_answered_by_it() -> None:
    """It looks at a cluster that nobody can reach, and says why."""
    nodes = Nodes(3).start()
    nodes.call("POST", "/v1/clusters", CLICKS)
    nodes.run(500)
    leader_id = nodes.leader.node.node_id
    for node_id in (1, 2, 3):
        read = nodes.call("GET", "/v1/brokers?cluster=clicks", of=node_id)
        assert (read.status, read.answered_by) == (200, leader_id)
        assert "10.0.0.7:9092" in body_of(read)["failures"]["metadata"]
        assert body_of(read)["age_ms"]["metadata"] is None
