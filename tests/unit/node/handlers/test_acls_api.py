"""ACLs end to end: their APIs, and that a change holds from the next request on, wherever something was remembered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.broker import Client, Node
from support.requests import batch, fetch, partitions_of, produced, values_of, wanted

from penstock.errors import ErrorCode
from penstock.node.handlers import acls
from penstock.protocol.acls import Acl, AclFilter
from penstock.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from penstock.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from penstock.protocol.messages.describe_acls_request import DescribeAclsRequest
from penstock.protocol.messages.describe_cluster_request import DescribeClusterRequest
from penstock.protocol.messages.init_producer_id_request import InitProducerIdRequest
from penstock.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from penstock.security.authorizer import Principal, StandardAuthorizer

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
READ, WRITE, CREATE, DESCRIBE = 3, 4, 5, 8
TOPIC, CLUSTER = 2, 4
ADMIN = Principal("User", "admin")


def acl(operation: int, name: str = "t", *, who: str = "User:ANONYMOUS", deny: bool = False, host: str = "*") -> Acl:
    return Acl(TOPIC, name, 3, who, host, operation, 2 if deny else 3)


def creation(each: Acl) -> AclCreation:
    return AclCreation(
        resource_type=each.resource_type,
        resource_name=each.name,
        resource_pattern_type=each.pattern_type,
        principal=each.principal,
        host=each.host,
        operation=each.operation,
        permission_type=each.permission,
    )


def meaning(name: str | None = None, *, principal: str | None = None) -> dict[str, Any]:
    return {
        "resource_type_filter": 1,
        "resource_name_filter": name,
        "pattern_type_filter": 1,
        "principal_filter": principal,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }


class Secured(Node):
    """A node with ACLs and a super user."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(authorizer=StandardAuthorizer(["User:admin"]), **settings)
        self.admin = self.connect_as(ADMIN)

    def connect_as(self, principal: Principal, listener: str = "PLAINTEXT") -> Client:
        client = self.connect(listener)
        self.broker.connections[client.number].principal = principal
        return client

    def create(self, *acls: Acl) -> Any:
        return self.admin.ask(CreateAclsRequest(creations=[creation(each) for each in acls]), 3)

    def delete(self, name: str | None = None) -> Any:
        return self.admin.ask(DeleteAclsRequest(filters=[DeleteAclsFilter(**meaning(name))]), 3)


@pytest.fixture
def node() -> Iterator[Secured]:
    made = Secured()
    made.create_topic("t")
    yield made
    assert not made.bugs


def test_acls_are_created_described_and_deleted(node: Secured) -> None:
    answer = node.create(acl(READ), acl(WRITE), acl(READ, "u"), acl(READ, ""))
    assert [each.error_code for each in answer.results] == [0, 0, 0, ErrorCode.INVALID_REQUEST]
    (of_t,) = node.admin.ask(DescribeAclsRequest(**meaning("t")), 1).resources
    assert (of_t.resource_type, of_t.resource_name, of_t.pattern_type) == (TOPIC, "t", 3)
    assert sorted((each.principal, each.host, each.operation, each.permission_type) for each in of_t.acls) == [
        ("User:ANONYMOUS", "*", READ, 3),
        ("User:ANONYMOUS", "*", WRITE, 3),
    ]
    (result,) = node.delete("t").filter_results
    assert sorted(each.operation for each in result.matching_acls) == [READ, WRITE]
    (left,) = node.admin.ask(DescribeAclsRequest(**meaning()), 3).resources
    assert left.resource_name == "u"
    assert len(node.broker.image.acls) == 1


def test_who_may_not_alter_the_cluster_changes_no_acl(node: Secured) -> None:
    client, refused = node.connect(), ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    created = client.ask(CreateAclsRequest(creations=[creation(acl(READ))] * 2), 3)
    assert [each.error_code for each in created.results] == [refused, refused]
    deleted = client.ask(DeleteAclsRequest(filters=[DeleteAclsFilter(**meaning())]), 3)
    assert [each.error_code for each in deleted.filter_results] == [refused]
    assert client.ask(DescribeAclsRequest(**meaning()), 3).error_code == refused
    assert len(node.broker.image.acls) == 0


def test_without_an_authorizer_security_is_disabled() -> None:
    client = Node().connect()
    disabled = ErrorCode.SECURITY_DISABLED
    assert client.ask(DescribeAclsRequest(**meaning()), 3).error_code == disabled
    created = client.ask(CreateAclsRequest(creations=[creation(acl(READ))]), 3)
    assert [each.error_code for each in created.results] == [disabled]
    deleted = client.ask(DeleteAclsRequest(filters=[DeleteAclsFilter(**meaning())]), 3)
    assert [each.error_code for each in deleted.filter_results] == [disabled]


def test_a_code_of_zero_breaks_the_connection_and_an_unknown_one_the_filter(node: Secured) -> None:
    unknown = DeleteAclsFilter(**{**meaning(), "operation": 99})
    (result,) = node.admin.ask(DeleteAclsRequest(filters=[unknown]), 3).filter_results
    assert result.error_code == ErrorCode.INVALID_REQUEST
    node.admin.send(DescribeAclsRequest(**{**meaning(), "operation": 0}), 3)
    assert node.admin.closed


def test_filters_are_refused_as_soon_as_they_mean_too_many_acls(node: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of a thousand filters may mean all ACLs: their matches would not fit into memory."""
    node.create(*(acl(READ, f"t{number}") for number in range(5)))
    monkeypatch.setattr(acls, "ACLS_PER_REQUEST_MAX", 7)
    looked_at = []
    matches = AclFilter.matches
    monkeypatch.setattr(AclFilter, "matches", lambda self, each: looked_at.append(each) or matches(self, each))
    answer = node.admin.ask(DeleteAclsRequest(filters=3 * [DeleteAclsFilter(**meaning())]), 3)
    assert {each.error_code for each in answer.filter_results} == {ErrorCode.POLICY_VIOLATION}
    assert len(looked_at) == 8
    assert len(node.delete().filter_results[0].matching_acls) == 5


def test_acls_survive_a_restart(node: Secured) -> None:
    node.create(acl(READ), acl(READ, who="User:bob", deny=True))
    node.authorizer = StandardAuthorizer(["User:admin"])
    node.crash()
    node.start()
    assert partitions_of(node.connect().ask(fetch("t", wanted()), 12))[0].error_code == 0
    bob = node.connect_as(Principal("User", "bob"))
    assert partitions_of(bob.ask(fetch("t", wanted()), 12))[0].error_code == DENIED


def test_a_change_holds_from_the_next_request_on(node: Secured) -> None:
    client = node.connect()
    assert produced(client, "t", batch()).error_code == DENIED
    node.create(acl(WRITE))
    assert produced(client, "t", batch()).error_code == 0
    node.create(acl(WRITE, deny=True))
    assert produced(client, "t", batch()).error_code == DENIED


def test_a_session_of_fetches_ends_with_the_right_though_nothing_is_new(node: Secured) -> None:
    node.create(acl(READ))
    client = node.connect()
    opened = client.ask(fetch("t", wanted(), session_epoch=0), 12)
    assert partitions_of(opened)[0].error_code == 0
    again = {"session_id": opened.session_id}
    assert partitions_of(client.ask(fetch("t", session_epoch=1, **again), 12)) == {}
    node.delete()
    assert partitions_of(client.ask(fetch("t", session_epoch=2, **again), 12))[0].error_code == DENIED
    node.create(acl(READ))
    assert partitions_of(client.ask(fetch("t", session_epoch=3, **again), 12))[0].error_code == 0


def test_a_parked_fetch_gives_nothing_that_came_after_its_right_went(node: Secured) -> None:
    node.create(acl(READ))
    client, own = node.connect(), node.connect_as(ADMIN)
    client.send(fetch("t", wanted(), min_bytes=1, max_wait_ms=10_000), 12)
    assert not client.answers
    node.delete()
    assert produced(own, "t", batch(b"secret")).error_code == 0
    assert partitions_of(client.receive())[0].error_code == DENIED


def test_who_calls_itself_a_follower_takes_no_consumers_session() -> None:
    """Followers' sessions replace those of consumers, and stay: only who may act in the cluster is a follower."""
    node = Secured(max_incremental_fetch_session_cache_slots=1)
    node.create_topic("t")
    node.create(acl(READ))
    client = node.connect()
    opened = client.ask(fetch("t", wanted(), session_epoch=0), 12)
    node.connect().ask(fetch("t", wanted(), session_epoch=0, replica_id=7), 12)
    again = fetch("t", session_id=opened.session_id, session_epoch=1)
    assert client.ask(again, 12).error_code == 0
    own = node.connect_as(ADMIN).ask(fetch("t", wanted(), session_epoch=0, replica_id=7), 12)
    assert own.session_id > 0


def test_a_debugging_consumer_needs_to_read_and_a_follower_to_act_in_the_cluster(node: Secured) -> None:
    produced(node.admin, "t", batch(b"x"))
    client = node.connect()
    for replica_id in (-2, 7):
        assert partitions_of(client.ask(fetch("t", wanted(), replica_id=replica_id), 12))[0].error_code == DENIED
    node.create(acl(READ))
    assert values_of(partitions_of(client.ask(fetch("t", wanted(), replica_id=-2), 12))[0]) == [b"x"]
    assert partitions_of(client.ask(fetch("t", wanted(), replica_id=7), 12))[0].error_code == DENIED


def asked(client: Client, *names: str, create: bool = False) -> dict[str, int]:
    """The topics that Metadata shows, with their errors; of no names all."""
    topics = [MetadataRequestTopic(name=name) for name in names] or None
    answer = client.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=create), 9)
    return {topic.name: topic.error_code for topic in answer.topics}


def test_kept_answers_are_shared_by_those_who_see_the_same(node: Secured) -> None:
    node.create_topic("u")
    node.create(acl(DESCRIBE), acl(DESCRIBE, "u", who="User:bob"), acl(DESCRIBE, who="User:carol"))
    client, bob, carol = node.connect(), *(node.connect_as(Principal("User", name)) for name in ("bob", "carol"))
    for _ in range(2):
        assert asked(client) == {"t": 0}
        assert asked(bob) == {"u": 0}
        assert asked(carol) == {"t": 0}
        assert asked(node.admin) == {"t": 0, "u": 0}
        assert asked(client, "t", "u", "v") == {"t": 0, "u": DENIED, "v": DENIED}
    handler = node.broker.dispatcher.served["PLAINTEXT"][MetadataRequest.KEY]
    kept = handler.kept.of(node.broker.image, 64)
    assert len(kept) == 3, "one for carol and the client without a name, bob's, the admin's; a denial is told each time"
    node.delete("t")
    assert asked(client) == {}


def test_a_kept_answer_is_of_one_host(node: Secured) -> None:
    node.create(acl(DESCRIBE, host="10.0.0.9"))
    near, far = node.connect(), node.connect()
    node.broker.connections[far.number].address = "10.0.0.9"
    for _ in range(2):
        assert asked(near) == {}
        assert asked(far) == {"t": 0}


def test_topics_are_created_with_the_clients_rights(node: Secured) -> None:
    client = node.connect()
    assert asked(client, "new", create=True) == {"new": DENIED}
    node.create(acl(DESCRIBE, "new"))
    assert asked(client, "new", create=True) == {"new": DENIED}, "it may look, and not create"
    assert asked(client, "new") == {"new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    node.create(acl(CREATE, "other"))
    assert asked(client, "other", create=True) == {"other": DENIED}, "it may create, and not look"
    assert set(node.broker.image.topics_by_name) == {"t"}
    node.create(acl(CREATE, "new"))
    assert asked(client, "new", create=True) == {"new": 0}


def test_an_idempotent_producer_needs_to_write_to_some_topic(node: Secured) -> None:
    client, request = node.connect(), InitProducerIdRequest(transactional_id=None)
    assert client.ask(request, 4).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    node.create(acl(READ))
    assert client.ask(request, 4).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    node.create(acl(WRITE, "any.topic"))
    assert client.ask(request, 4).error_code == 0


def test_controllers_describe_the_cluster_to_who_may_alter_it(node: Secured) -> None:
    request = DescribeClusterRequest(endpoint_type=2)
    client = node.connect("CONTROLLER")
    node.create(Acl(CLUSTER, "kafka-cluster", 3, "User:ANONYMOUS", "*", DESCRIBE, 3))
    assert client.ask(request, 1).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    node.create(Acl(CLUSTER, "kafka-cluster", 3, "User:ANONYMOUS", "*", 7, 3))
    assert client.ask(request, 1).error_code == 0
    assert node.connect_as(Principal("User", "x")).ask(DescribeClusterRequest(), 0).error_code == 0


def test_the_node_itself_needs_no_acl_and_a_client_that_calls_itself_so_does(node: Secured) -> None:
    assert node.broker.ready, "it has registered with itself, and been heard of"
    impostor = node.connect_as(Principal("Node", str(node.broker.node_id)))
    assert produced(impostor, "t", batch()).error_code == DENIED


def test_a_host_is_compared_as_java_writes_it(node: Secured) -> None:
    node.broker.connected(77, "PLAINTEXT", "[::1%lo]:5000", node.now_ms)
    node.broker.connected(78, "PLAINTEXT", "[::ffff:10.0.0.9]:5000", node.now_ms)
    addresses = [node.broker.connections[number].address for number in (77, 78)]
    assert addresses == ["0:0:0:0:0:0:0:1%lo", "10.0.0.9"]


def test_a_controller_that_is_no_broker_decides_by_acls_once_it_has_caught_up() -> None:
    authorizer = StandardAuthorizer(["User:admin"])
    node = Node(authorizer=authorizer, process_roles=("controller",), listeners=("CONTROLLER://127.0.0.1:0",))
    assert authorizer.is_loaded
    request = DescribeClusterRequest(endpoint_type=2)
    client, admin = node.connect("CONTROLLER"), node.connect("CONTROLLER")
    node.broker.connections[admin.number].principal = ADMIN
    assert client.ask(request, 1).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    right = Acl(CLUSTER, "kafka-cluster", 3, "User:ANONYMOUS", "*", 7, 3)
    assert admin.ask(CreateAclsRequest(creations=[creation(right)]), 3).results[0].error_code == 0
    assert client.ask(request, 1).error_code == 0


def test_nothing_counts_before_the_node_knows_the_cluster() -> None:
    authorizer = StandardAuthorizer(["User:admin"])
    node = Node(authorizer=authorizer, start=False)
    assert not authorizer.is_loaded
    node.start()
    assert authorizer.is_loaded


def test_a_node_whose_authorizer_cannot_follow_stops(node: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(changes: object) -> None:
        raise ValueError("broken")

    monkeypatch.setattr(node.authorizer, "changed", broken)
    node.bugs_expected = True
    node.admin.send(CreateAclsRequest(creations=[creation(acl(READ))]), 3)
    assert isinstance(node.broker.failure, ValueError)
    node.bugs.clear()
