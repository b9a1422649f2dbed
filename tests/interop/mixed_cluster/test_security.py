"""A cluster of both over TLS, with logins or certificates, and ACLs: who may do what is the same wherever one asks.

One long life of each cluster, as it takes long to start: an ordinary user is refused everything, gets rights and loses
them again through brokers of either kind, writes, reads and commits while partitions move, has requests passed on to
the controller under the own name, and gets nowhere at the controllers themselves.
"""

from __future__ import annotations

import asyncio
import hashlib
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from interop.mixed_cluster.load import Load
from interop.mixed_cluster.nodes import BROKERS, CONTROLLER, GROUPS, KAFKA, MixedCluster, PenstockNode
from interop.mixed_cluster.security import ALICE, NODE, SCRAM, Security, certificates, login, password, sasl
from interop.mixed_cluster.test_mixed_cluster import LED_BY_EACH, TOPIC, all_is_equal, more_is_acknowledged

from penstock.client.acls import creation_of, filter_of
from penstock.client.client import Client
from penstock.client.security import ClientSecurity, client_security
from penstock.errors import AuthenticationError, ErrorCode
from penstock.metadata.scram import ScramMechanism
from penstock.node.channel import serialized
from penstock.protocol.acls import Acl, AclFilter, AclOperation, PatternType, ResourceType
from penstock.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from penstock.protocol.messages.create_acls_request import CreateAclsRequest
from penstock.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.delete_acls_request import DeleteAclsRequest
from penstock.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.messages.describe_acls_request import DescribeAclsRequest
from penstock.protocol.messages.elect_leaders_request import ElectLeadersRequest
from penstock.protocol.messages.envelope_request import EnvelopeRequest
from penstock.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from penstock.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from penstock.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from penstock.raft.topic import METADATA
from penstock.security.authorizer import Principal

pytestmark = [pytest.mark.java, pytest.mark.slow]

SETTINGS = {
    "broker.session.timeout.ms": 3000,
    "broker.heartbeat.interval.ms": 500,
    "group.initial.rebalance.delay.ms": 0,
}
QUORUMS = [("penstock",), ("kafka", "penstock", "kafka"), ("penstock", "kafka", "penstock")]
USER = f"User:{ALICE}"
ALLOW, DENY = 3, 2
ANY = 1
REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
CLUSTER_REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
ITERATIONS = 4096
CONFIG_TOPIC = 2
"""The type of a resource with configs."""


def acl(
    kind: ResourceType, name: str, operation: AclOperation, *, prefixed: bool = False, permission: int = ALLOW
) -> Acl:
    """An ACL of alice."""
    pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    return Acl(kind, name, pattern, USER, "*", operation, permission)


def give(cluster: MixedCluster, through: int, *acls: Acl) -> None:
    answer = cluster.ask(through, CreateAclsRequest(creations=[creation_of(each) for each in acls]))
    assert [each.error_code for each in answer.results] == [0] * len(acls), answer
    known_everywhere(cluster)


def take(cluster: MixedCluster, through: int, gone: Acl) -> None:
    wanted = AclFilter(*gone)
    answer = cluster.ask(through, DeleteAclsRequest(filters=[filter_of(wanted)]))
    (result,) = answer.filter_results
    assert (result.error_code, len(result.matching_acls)) == (0, 1), answer
    known_everywhere(cluster)


def known_everywhere(cluster: MixedCluster) -> None:
    """Until every broker lists the same ACLs, as the controller has answered before the others have them."""
    wanted = DescribeAclsRequest(
        resource_type_filter=ANY,
        resource_name_filter=None,
        pattern_type_filter=ANY,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )

    def listed(broker: int) -> list[tuple[object, ...]]:
        answer = cluster.ask(broker, wanted)
        assert answer.error_code == 0, answer
        return sorted(
            (of.resource_type, of.resource_name, of.pattern_type, each.principal, each.host, each.operation,
             each.permission_type)
            for of in answer.resources
            for each in of.acls
        )  # fmt: skip

    cluster.wait_until(lambda: len({tuple(listed(each)) for each in BROKERS}) == 1, "all brokers list the same ACLs")


def topic_rights(cluster: MixedCluster, broker: int) -> tuple[ErrorCode, frozenset[AclOperation]]:
    """What alice is told of the topic, and what she may do to it."""
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=TOPIC)],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    (found,) = cluster.ask(broker, request, user=ALICE).topics
    bits = found.topic_authorized_operations
    operations = frozenset(each for each in AclOperation if bits > 0 and bits & (1 << each))
    return ErrorCode(found.error_code), operations


def everywhere(cluster: MixedCluster, error: ErrorCode, *operations: AclOperation) -> None:
    """Every broker says the same, and soon."""
    expected = (error, frozenset(operations))
    cluster.wait_until(
        lambda: all(topic_rights(cluster, each) == expected for each in BROKERS),
        f"every broker says {expected}",
    )


def rights_hold_at_every_broker(cluster: MixedCluster) -> None:
    """Given and taken through brokers of either kind: literal, prefixed and denying ones."""
    everywhere(cluster, REFUSED)
    give(cluster, KAFKA, acl(ResourceType.TOPIC, TOPIC, AclOperation.DESCRIBE))
    everywhere(cluster, ErrorCode.NONE, AclOperation.DESCRIBE)
    prefixed = acl(ResourceType.TOPIC, TOPIC[:2], AclOperation.ALL, prefixed=True)
    give(cluster, 2, prefixed)
    all_of_them = {each for each in AclOperation if each in TOPIC_OPERATIONS}
    everywhere(cluster, ErrorCode.NONE, *all_of_them)
    denied = acl(ResourceType.TOPIC, "*", AclOperation.DELETE, permission=DENY)
    give(cluster, KAFKA, denied)
    everywhere(cluster, ErrorCode.NONE, *(all_of_them - {AclOperation.DELETE}))
    take(cluster, 3, denied)
    everywhere(cluster, ErrorCode.NONE, *all_of_them)
    take(cluster, KAFKA, prefixed)
    everywhere(cluster, ErrorCode.NONE, AclOperation.DESCRIBE)
    take(cluster, 2, acl(ResourceType.TOPIC, TOPIC, AclOperation.DESCRIBE))
    everywhere(cluster, REFUSED)


TOPIC_OPERATIONS = frozenset(
    {
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    }
)
"""What can be done to a topic."""


def work_for(cluster: MixedCluster, security: Security) -> Load:
    """Alice writes and reads, partitions led by each; before she has the right she writes nothing."""
    errors: list[Any] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0, **security.librdkafka(ALICE)})
    for partition in range(len(LED_BY_EACH)):
        producer.produce(TOPIC, b"", partition=partition, on_delivery=lambda error, _: errors.append(error.code()))
    assert producer.flush(30) == 0
    assert errors == [REFUSED] * len(LED_BY_EACH)
    give(cluster, KAFKA, acl(ResourceType.GROUP, "unused", AclOperation.READ))  # the reader looks for a coordinator
    give(
        cluster,
        2,
        acl(ResourceType.TOPIC, TOPIC, AclOperation.WRITE),
        acl(ResourceType.TOPIC, TOPIC, AclOperation.READ),
    )
    everywhere(cluster, ErrorCode.NONE, AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE)
    return Load(cluster.bootstrap, TOPIC, range(len(LED_BY_EACH)), security=security.librdkafka(ALICE))


def reader(cluster: MixedCluster, security: Security, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
            **security.librdkafka(ALICE),
        }
    )


def groups_commit_at_either_coordinator(cluster: MixedCluster, security: Security) -> None:
    """A group's coordinator is Kafka's broker, and then ours; each lets alice in by an ACL given at the other."""
    cluster.reassign(GROUPS, {0: [1, 2, 3]})
    cluster.wait_until_in_sync(GROUPS, {0: [1, 2, 3]})
    for coordinator, giver in ((KAFKA, 2), (2, KAFKA)):
        replicas = [coordinator, *(each for each in BROKERS if each != coordinator)]
        cluster.reassign(GROUPS, {0: replicas})
        cluster.elect_preferred(GROUPS, [0])
        cluster.wait_until_in_sync(GROUPS, {0: replicas}, {0: coordinator})
        group = f"group-{coordinator}"
        found = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
        refused = [cluster.ask(each, found, user=ALICE).coordinators[0].error_code for each in BROKERS]
        assert refused == [ErrorCode.GROUP_AUTHORIZATION_FAILED] * len(BROKERS)
        give(cluster, giver, acl(ResourceType.GROUP, group, AclOperation.READ))
        consumer = reader(cluster, security, group)
        consumer.subscribe([TOPIC])
        seen: set[int] = set()
        while seen != set(range(len(LED_BY_EACH))):
            message = consumer.poll(30)
            assert message is not None
            assert message.error() is None, message.error()
            seen.add(message.partition() or 0)
        consumer.commit(asynchronous=False)
        consumer.close()
        assert all(each > 0 for each in committed(cluster, security, group))


def committed(cluster: MixedCluster, security: Security, group: str) -> list[int]:
    consumer = reader(cluster, security, group)
    try:
        asked = [TopicPartition(TOPIC, each) for each in range(len(LED_BY_EACH))]
        return [each.offset for each in consumer.committed(asked, timeout=30)]
    finally:
        consumer.close()


# Forwarded requests

FORWARDED: dict[str, tuple[Any, Callable[[Any], int], ErrorCode]] = {
    "DeleteTopics": (
        DeleteTopicsRequest(topics=[DeleteTopicState(name=TOPIC)], timeout_ms=30_000),
        lambda answer: answer.responses[0].error_code,
        REFUSED,
    ),
    "IncrementalAlterConfigs": (
        IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=CONFIG_TOPIC,
                    resource_name=TOPIC,
                    configs=[AlterableConfig(name="retention.ms", config_operation=0, value="1")],
                )
            ]
        ),
        lambda answer: answer.responses[0].error_code,
        REFUSED,
    ),
    "CreateAcls": (
        CreateAclsRequest(creations=[creation_of(acl(ResourceType.TOPIC, "*", AclOperation.ALL))]),
        lambda answer: answer.results[0].error_code,
        CLUSTER_REFUSED,
    ),
    "AlterUserScramCredentials": (
        AlterUserScramCredentialsRequest(
            deletions=[ScramCredentialDeletion(name=NODE, mechanism=ScramMechanism.SCRAM_SHA_512)], upsertions=[]
        ),
        lambda answer: answer.results[0].error_code,
        CLUSTER_REFUSED,
    ),
    "ElectLeaders": (
        ElectLeadersRequest(topic_partitions=None, timeout_ms=30_000),
        lambda answer: answer.error_code,
        CLUSTER_REFUSED,
    ),
}
"""What only an administrator may, by whom it is sent: the request, where its error is, and which."""


def created(cluster: MixedCluster, name: str, through: int) -> ErrorCode:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=3)
    answer = cluster.ask(through, CreateTopicsRequest(topics=[topic], timeout_ms=30_000), user=ALICE)
    return ErrorCode(answer.topics[0].error_code)


def the_controller_hears_the_name(cluster: MixedCluster) -> None:
    """Requests that brokers pass on are alice's there, not the broker's, which may do all."""
    for broker in BROKERS:
        for name, (request, error_of, expected) in FORWARDED.items():
            answer = cluster.ask(broker, request, user=ALICE)
            assert error_of(answer) == expected, f"{name} through {broker}: {answer}"
        assert created(cluster, f"made-by-{broker}", broker) == REFUSED
    give(cluster, 3, acl(ResourceType.TOPIC, "made-", AclOperation.CREATE, prefixed=True))
    for broker in BROKERS:
        assert created(cluster, f"made-by-{broker}", broker) == ErrorCode.NONE
        assert created(cluster, f"other-by-{broker}", broker) == REFUSED


def controllers_serve_nodes_alone(cluster: MixedCluster) -> None:
    """An ordinary user can neither speak for somebody else there nor read the metadata log, where keys are."""
    envelope = EnvelopeRequest(
        request_data=b"", request_principal=serialized(Principal("User", "admin")), client_host_address=b"\x7f\0\0\1"
    )
    log = FetchPartition(partition=0, current_leader_epoch=-1, fetch_offset=0, partition_max_bytes=1 << 20)
    fetch = FetchRequest(
        max_wait_ms=0, max_bytes=1 << 20, topics=[FetchTopic(topic_id=METADATA.topic_id, partitions=[log])]
    )
    for node_id in cluster.controllers:
        assert cluster.ask(node_id, envelope, user=ALICE).error_code == CLUSTER_REFUSED
        assert cluster.ask(node_id, fetch, user=ALICE).error_code == CLUSTER_REFUSED


# Users


def users_log_in_at_every_broker(cluster: MixedCluster, security: Security) -> None:
    """A user of SCRAM that is made through one broker is one at all others, and with another password soon as well."""
    for user, through in (("bob", KAFKA), ("carol", 2)):
        given = client_security({**security.properties(ALICE), **login(user, SCRAM)})
        for secret, expected in ((password(user), True), ("another", False), (password(user), True)):
            set_password(cluster, user, secret, through)
            for broker in BROKERS:
                cluster.wait_until(
                    lambda: logs_in(cluster.address(broker), given) == expected,  # noqa: B023 - called before the loop goes on
                    f"{user} logs in at {broker}: {expected}",
                )


def set_password(cluster: MixedCluster, user: str, secret: str, through: int) -> None:
    salt = user.encode() * 4
    salted = hashlib.pbkdf2_hmac("sha512", secret.encode(), salt, ITERATIONS)
    upsertion = ScramCredentialUpsertion(
        name=user, mechanism=ScramMechanism.SCRAM_SHA_512, iterations=ITERATIONS, salt=salt, salted_password=salted
    )
    answer = cluster.ask(through, AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion]))
    assert [each.error_code for each in answer.results] == [0], answer


def logs_in(address: str, security: ClientSecurity) -> bool:
    async def once() -> bool:
        try:
            async with Client(address, security=security):
                return True
        except AuthenticationError:
            return False

    return asyncio.run(once())


# The lives


def life(cluster: MixedCluster, security: Security, *, dies: signal.Signals | None = None) -> Load:
    """See the module's head. `dies`: how the active controller ends, while alice writes."""
    cluster.create_topic(TOPIC, LED_BY_EACH, through=2, min_insync_replicas=2)
    rights_hold_at_every_broker(cluster)
    load = work_for(cluster, security)
    load.start()
    more_is_acknowledged(cluster, load)
    the_controller_hears_the_name(cluster)
    controllers_serve_nodes_alone(cluster)
    if dies is not None:
        leader = cluster.leader()
        cluster.stop_node(leader, dies)
        cluster.wait_until_there_is_a_leader()
        the_controller_hears_the_name_again(cluster)
        cluster.start_node(leader)
        cluster.wait_until_voters_follow()
    cluster.reassign(TOPIC, {0: [2, 3, 1], 1: [3, 1, 2], 2: [1, 2, 3]}, through=3)
    cluster.elect_preferred(TOPIC, range(3), through=2)
    cluster.wait_until_in_sync(TOPIC, leaders={0: 2, 1: 3, 2: 1})
    more_is_acknowledged(cluster, load)
    groups_commit_at_either_coordinator(cluster, security)
    if "sasl.enabled.mechanisms" in security.settings:
        users_log_in_at_every_broker(cluster, security)
    load.finish()
    cluster.wait_until_in_sync(TOPIC)
    return load


def the_controller_hears_the_name_again(cluster: MixedCluster) -> None:
    """After another has taken over, by the ACLs that it has from the log."""
    for broker in BROKERS:
        assert created(cluster, f"made-later-by-{broker}", broker) == ErrorCode.NONE
        assert created(cluster, f"other-by-{broker}", broker) == REFUSED


def nothing_is_told(cluster: MixedCluster) -> None:
    """No node of ours has written a password down, or failed."""
    for node in (*cluster.penstocks.values(), *cluster.controllers.values()):
        if isinstance(node, PenstockNode):
            assert "canary" not in node.log()
            assert "Traceback" not in node.log()
            assert "expired" not in node.log(), "logins are renewed in time"


def test_rights_and_users_are_those_of_the_whole_cluster(tmp_path: Path) -> None:
    """Kafka's node decides."""
    security = sasl(tmp_path)
    with MixedCluster(tmp_path / "cluster", settings=SETTINGS, security=security) as cluster:
        load = life(cluster, security)
    all_is_equal(cluster, load)
    nothing_is_told(cluster)


@pytest.mark.long
@pytest.mark.parametrize("controllers", QUORUMS, ids="-".join)
def test_whoever_decides(tmp_path: Path, controllers: tuple[str, ...]) -> None:
    """Where several do, the active one is killed in between."""
    security = sasl(tmp_path)
    dies = signal.SIGKILL if len(controllers) > 1 else None
    with MixedCluster(tmp_path / "cluster", controllers=controllers, settings=SETTINGS, security=security) as cluster:
        load = life(cluster, security, dies=dies)
    all_is_equal(cluster, load)
    nothing_is_told(cluster)


@pytest.mark.long
def test_certificates_instead_of_logins(tmp_path: Path) -> None:
    security = certificates(tmp_path)
    with MixedCluster(
        tmp_path / "cluster", controllers=("kafka", "penstock", "penstock"), settings=SETTINGS, security=security
    ) as cluster:
        assert set(cluster.controllers) == {CONTROLLER, CONTROLLER + 1, CONTROLLER + 2}
        load = life(cluster, security, dies=signal.SIGTERM)
    all_is_equal(cluster, load)
    nothing_is_told(cluster)
