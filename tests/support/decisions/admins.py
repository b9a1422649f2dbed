"""Probes about what admins and nodes do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from penstock.protocol.message import Message
from penstock.protocol.messages import (
    alter_configs_request,
    alter_partition_reassignments_request,
    alter_partition_request,
    alter_replica_log_dirs_request,
    create_partitions_request,
    create_topics_request,
    delete_topics_request,
    describe_configs_request,
    elect_leaders_request,
    incremental_alter_configs_request,
    list_partition_reassignments_request,
    update_features_request,
)
from penstock.protocol.messages.add_raft_voter_request import AddRaftVoterRequest
from penstock.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from penstock.protocol.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from penstock.protocol.messages.alter_partition_request import AlterPartitionRequest
from penstock.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from penstock.protocol.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest
from penstock.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from penstock.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from penstock.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from penstock.protocol.messages.describe_acls_request import DescribeAclsRequest
from penstock.protocol.messages.describe_client_quotas_request import ComponentData, DescribeClientQuotasRequest
from penstock.protocol.messages.describe_cluster_request import DescribeClusterRequest
from penstock.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from penstock.protocol.messages.describe_quorum_request import DescribeQuorumRequest
from penstock.protocol.messages.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from penstock.protocol.messages.envelope_request import EnvelopeRequest
from penstock.protocol.messages.fetch_request import ReplicaState
from penstock.protocol.messages.fetch_snapshot_request import FetchSnapshotRequest
from penstock.protocol.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
from penstock.protocol.messages.list_config_resources_request import ListConfigResourcesRequest
from penstock.protocol.messages.push_telemetry_request import PushTelemetryRequest
from penstock.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from penstock.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from support.decisions.probe import BROKER, CLIENT_METRICS, GROUP_CONFIG, TOPIC, Probe
from support.requests import fetch, wanted


def configs(module: Any, request: Any, kind: int, name: str, config: str) -> Message:
    """A request to set a config to 50000, which is right for each of them."""
    resource = module.AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=[module.AlterableConfig(name=config, value="50000")]
    )
    made: Message = request(resources=[resource], validate_only=True)
    return made


def of_admins() -> Iterator[Probe]:
    yield from of_creation()
    yield from of_configs()
    yield from of_cluster()
    yield from of_acls()
    yield from of_users()
    yield from of_quotas()
    yield from of_client_metrics()
    yield from of_deletion()


def of_creation() -> Iterator[Probe]:
    for version in (2, 7):
        yield Probe("create topic m, validated only", version, lambda ids: create_topic("m", validate_only=True))
        yield Probe("create topic t, validated only", version, lambda ids: create_topic("t", validate_only=True))
    for version in (0, 3):
        yield Probe(
            "create partitions, validated only",
            version,
            lambda ids: create_partitions_request.CreatePartitionsRequest(
                topics=[
                    create_partitions_request.CreatePartitionsTopic(name=name, count=2, assignments=None)
                    for name in ("t", "m")
                ],
                timeout_ms=1_000,
                validate_only=True,
            ),
        )


def of_configs() -> Iterator[Probe]:
    for version in (1, 4):
        for kind, name in ((TOPIC, "t"), (TOPIC, "m"), (BROKER, "1"), (CLIENT_METRICS, "s"), (GROUP_CONFIG, "g")):
            yield Probe(
                f"describe configs of {kind} {name}",
                version,
                lambda ids, kind=kind, name=name: describe_configs_request.DescribeConfigsRequest(
                    resources=[
                        describe_configs_request.DescribeConfigsResource(
                            resource_type=kind, resource_name=name, configuration_keys=["segment.bytes"]
                        )
                    ]
                ),
            )
    for kind, name, config in (
        (TOPIC, "t", "retention.ms"),
        (TOPIC, "m", "retention.ms"),
        (BROKER, "1", "message.max.bytes"),
        (CLIENT_METRICS, "s", "interval.ms"),
        (GROUP_CONFIG, "g", "consumer.session.timeout.ms"),
    ):
        for version in (0, 1):
            yield Probe(
                f"alter configs of {kind} {name} one by one",
                version,
                lambda ids, kind=kind, name=name, config=config: configs(
                    incremental_alter_configs_request,
                    incremental_alter_configs_request.IncrementalAlterConfigsRequest,
                    kind,
                    name,
                    config,
                ),
            )
        yield Probe(
            f"alter configs of {kind} {name}",
            2,
            lambda ids, kind=kind, name=name, config=config: configs(
                alter_configs_request, alter_configs_request.AlterConfigsRequest, kind, name, config
            ),
        )


def of_cluster() -> Iterator[Probe]:
    for version in (1, 2):
        yield Probe(
            "move replicas between directories",
            version,
            lambda ids: alter_replica_log_dirs_request.AlterReplicaLogDirsRequest(
                dirs=[
                    alter_replica_log_dirs_request.AlterReplicaLogDir(
                        path="/nowhere",
                        topics=[alter_replica_log_dirs_request.AlterReplicaLogDirTopic(name="t", partitions=[0])],
                    )
                ]
            ),
        )
        yield Probe("describe log directories", version + 2, lambda ids: DescribeLogDirsRequest(topics=[]))
    for version in (0, 2):
        yield Probe(
            "elect leaders",
            version,
            lambda ids: elect_leaders_request.ElectLeadersRequest(
                topic_partitions=[elect_leaders_request.TopicPartitions(topic="t", partitions=[0])]
            ),
        )
    yield Probe(
        "cancel a reassignment",
        0,
        lambda ids: alter_partition_reassignments_request.AlterPartitionReassignmentsRequest(
            topics=[
                alter_partition_reassignments_request.ReassignableTopic(
                    name="t", partitions=[alter_partition_reassignments_request.ReassignablePartition()]
                )
            ]
        ),
    )
    yield Probe(
        "list reassignments", 0, lambda ids: list_partition_reassignments_request.ListPartitionReassignmentsRequest()
    )
    yield Probe("describe the quorum", 0, lambda ids: DescribeQuorumRequest())
    yield Probe(
        "update features, validated only",
        1,
        lambda ids: update_features_request.UpdateFeaturesRequest(
            validate_only=True,
            feature_updates=[update_features_request.FeatureUpdateKey(feature="no.such.feature", max_version_level=1)],
        ),
    )
    yield Probe("unregister a broker that is none", 0, lambda ids: UnregisterBrokerRequest(broker_id=99))
    for version in (0, 1):
        yield Probe("list config resources", version, lambda ids: ListConfigResourcesRequest())
    yield Probe("add a voter of another cluster", 0, lambda ids: AddRaftVoterRequest(cluster_id="other", voter_id=9))
    yield Probe(
        "remove a voter of another cluster", 0, lambda ids: RemoveRaftVoterRequest(cluster_id="other", voter_id=9)
    )


OF_NOBODY = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": "User:nobody",
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
"""The fields of a filter of ACLs that finds none."""


def describe_acls(ids: object) -> Message:
    return DescribeAclsRequest(**OF_NOBODY)


def create_acl(ids: object) -> Message:
    acl = AclCreation(resource_type=2, principal="User:nobody", host="*", operation=3, permission_type=3)
    return CreateAclsRequest(creations=[acl])


def delete_acls(ids: object) -> Message:
    return DeleteAclsRequest(filters=[DeleteAclsFilter(**OF_NOBODY)])


def of_acls() -> Iterator[Probe]:
    for version in (1, 3):
        yield Probe("describe ACLs of nobody", version, describe_acls)
        yield Probe("create an ACL without a name", version, create_acl)
        yield Probe("delete ACLs of nobody", version, delete_acls)


def describe_user(ids: object) -> Message:
    return DescribeUserScramCredentialsRequest(users=[UserName(name="nobody")])


def delete_user(ids: object) -> Message:
    return AlterUserScramCredentialsRequest(deletions=[ScramCredentialDeletion(name="nobody", mechanism=1)])


def of_users() -> Iterator[Probe]:
    # null means all users, as an empty list does, but Kafka 4.3.1 never answers that where it refuses it
    yield Probe("describe the users of SCRAM", 0, lambda ids: DescribeUserScramCredentialsRequest(users=[]))
    yield Probe("describe a user who is none", 0, describe_user)
    yield Probe("delete a user who is none", 0, delete_user)


def describe_quotas(ids: object) -> Message:
    return DescribeClientQuotasRequest(components=[ComponentData(entity_type="user", match_type=2, match=None)])


def delete_quota(ids: object) -> Message:
    nobody = [EntityData(entity_type="user", entity_name="nobody")]
    return AlterClientQuotasRequest(
        entries=[EntryData(entity=nobody, ops=[OpData(key="request_percentage", remove=True)])]
    )


def of_quotas() -> Iterator[Probe]:
    for version in (0, 1):
        yield Probe("describe quotas", version, describe_quotas)
        yield Probe("delete a quota that is none", version, delete_quota)


def of_client_metrics() -> Iterator[Probe]:
    yield Probe("what metrics to push", 0, lambda ids: GetTelemetrySubscriptionsRequest())
    yield Probe("push metrics by the id of nobody", 0, lambda ids: PushTelemetryRequest())


def of_deletion() -> Iterator[Probe]:
    for version in (1, 5):
        yield Probe(
            "delete topic m",
            version,
            lambda ids: delete_topics_request.DeleteTopicsRequest(topic_names=["m"], timeout_ms=5_000),
        )
    yield Probe(
        "delete topics by id",
        6,
        lambda ids: delete_topics_request.DeleteTopicsRequest(
            topics=[
                delete_topics_request.DeleteTopicState(name=None, topic_id=each) for each in (ids["d"], UUID(int=77))
            ],
            timeout_ms=5_000,
        ),
    )
    yield Probe(
        "delete topic d",
        6,
        lambda ids: delete_topics_request.DeleteTopicsRequest(
            topics=[delete_topics_request.DeleteTopicState(name="d")], timeout_ms=5_000
        ),
    )


def create_topic(name: str, *, validate_only: bool = False) -> Message:
    topic = create_topics_request.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    return create_topics_request.CreateTopicsRequest(topics=[topic], timeout_ms=5_000, validate_only=validate_only)


def of_controllers() -> Iterator[Probe]:
    metadata_id = UUID(int=1)
    yield Probe(
        "controller: fetch the metadata log",
        17,
        lambda ids: fetch(metadata_id, wanted(), replica_state=ReplicaState(replica_id=99)),
        controller=True,
    )
    yield Probe(
        "controller: fetch a snapshot", 0, lambda ids: FetchSnapshotRequest(cluster_id="other"), controller=True
    )
    yield Probe(
        "controller: describe cluster",
        1,
        lambda ids: DescribeClusterRequest(endpoint_type=2, include_cluster_authorized_operations=True),
        controller=True,
    )
    yield Probe("controller: describe the quorum", 0, lambda ids: DescribeQuorumRequest(), controller=True)
    yield Probe(
        "controller: create topic m, validated only",
        7,
        lambda ids: create_topic("m", validate_only=True),
        controller=True,
    )
    yield Probe(
        "controller: describe configs",
        4,
        lambda ids: describe_configs_request.DescribeConfigsRequest(
            resources=[
                describe_configs_request.DescribeConfigsResource(
                    resource_type=TOPIC, resource_name="t", configuration_keys=["segment.bytes"]
                )
            ]
        ),
        controller=True,
    )
    yield Probe("controller: describe ACLs of nobody", 3, describe_acls, controller=True)
    yield Probe("controller: create an ACL without a name", 3, create_acl, controller=True)
    yield Probe("controller: delete a user who is none", 0, delete_user, controller=True)
    yield Probe(
        "controller: heartbeat of no broker", 0, lambda ids: BrokerHeartbeatRequest(broker_id=99), controller=True
    )
    yield Probe(
        "controller: producer ids for no broker",
        0,
        lambda ids: AllocateProducerIdsRequest(broker_id=99),
        controller=True,
    )
    yield Probe(
        "controller: partitions of no broker",
        2,
        lambda ids: AlterPartitionRequest(broker_id=99, topics=[alter_partition_request.TopicData()]),
        controller=True,
    )
    yield Probe(
        "controller: directories of no broker",
        0,
        lambda ids: AssignReplicasToDirsRequest(broker_id=99),
        controller=True,
    )
    yield Probe("controller: an envelope of nothing", 0, lambda ids: EnvelopeRequest(), controller=True)
