"""A small valid request for every API that a broker or a controller listener advertises, in every version of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from uuid import UUID, uuid4

from interop.clients.valid_group_requests import VALID_OF_GROUPS
from interop.clients.valid_security_requests import VALID_OF_SECURITY
from interop.clients.valid_transaction_requests import VALID_OF_TRANSACTIONS

from penstock.metadata.features import LATEST_METADATA_VERSION
from penstock.node.client_metrics.subscriptions import DEFAULT_INTERVAL_MS, Wanted
from penstock.protocol.api import ApiKey
from penstock.protocol.message import ZERO_UUID, Message
from penstock.protocol.messages.add_raft_voter_request import AddRaftVoterRequest
from penstock.protocol.messages.add_raft_voter_request import Listener as AddedListener
from penstock.protocol.messages.alter_configs_request import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from penstock.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.protocol.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from penstock.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from penstock.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from penstock.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.messages.describe_cluster_request import DescribeClusterRequest
from penstock.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from penstock.protocol.messages.describe_log_dirs_request import DescribableLogDirTopic, DescribeLogDirsRequest
from penstock.protocol.messages.describe_quorum_request import DescribeQuorumRequest
from penstock.protocol.messages.describe_quorum_request import PartitionData as QuorumPartition
from penstock.protocol.messages.describe_quorum_request import TopicData as QuorumTopic
from penstock.protocol.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest, TopicRequest
from penstock.protocol.messages.elect_leaders_request import ElectLeadersRequest
from penstock.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
from penstock.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig as IncrementalConfig,
)
from penstock.protocol.messages.incremental_alter_configs_request import (
    AlterConfigsResource as IncrementalResource,
)
from penstock.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from penstock.protocol.messages.init_producer_id_request import InitProducerIdRequest
from penstock.protocol.messages.list_config_resources_request import ListConfigResourcesRequest
from penstock.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from penstock.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from penstock.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from penstock.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.messages.push_telemetry_request import PushTelemetryRequest
from penstock.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from penstock.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from penstock.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from penstock.records.builder import BatchBuilder
from penstock.records.compression import Codec

METADATA_TOPIC = "__cluster_metadata"
BROKER_ID = "1"
TOPIC, BROKER, CLIENT_METRICS = 2, 4, 16
"""Types of config resources."""
LATEST = -1


@dataclass
class World:
    """What there is on the broker that is asked.

    Attributes:
        topic, topic_id: a topic of one partition with some records.
        expendable: makes a topic and gives its name, for requests that change or delete one.
        id_of: the id of a topic.
    """

    topic: str
    topic_id: UUID
    expendable: Callable[[], str]
    id_of: Callable[[str], UUID]
    numbers: count[int] = field(default_factory=count)

    def new_name(self) -> str:
        """The name of a topic that does not exist."""
        return f"new-{next(self.numbers)}"


def batch(*values: bytes, codec: Codec = Codec.NONE, **builder: object) -> bytes:
    """A batch with a record for each value."""
    made = BatchBuilder(codec=codec, **builder)  # type: ignore[arg-type]
    for value in values or (b"value",):
        made.append(time.time_ns() // 1_000_000, b"key", value)
    return bytes(made.build())


def produce(world: World, version: int, records: bytes | None = None, **fields: object) -> ProduceRequest:
    """One batch to partition 0, by name or by id as the version has it."""
    partition = PartitionProduceData(index=0, records=batch() if records is None else records)
    return produce_to(world.topic, world.topic_id, version, partition, **fields)


def produce_to(
    name: str, topic_id: UUID, version: int, *partitions: PartitionProduceData, **fields: object
) -> ProduceRequest:
    by_id = version >= 13
    data = TopicProduceData(
        name="" if by_id else name, topic_id=topic_id if by_id else ZERO_UUID, partition_data=list(partitions)
    )
    return ProduceRequest(**{"acks": 1, "timeout_ms": 5000, **fields}, topic_data=[data])  # type: ignore[arg-type]


def fetch_from(name: str, topic_id: UUID, version: int, *partitions: FetchPartition, **fields: object) -> FetchRequest:
    """A fetch of some partitions of one topic, by name or by id as the version has it."""
    by_id = version >= 13
    topic = FetchTopic(
        topic="" if by_id else name, topic_id=topic_id if by_id else ZERO_UUID, partitions=list(partitions)
    )
    defaults: dict[str, object] = {"max_wait_ms": 0, "min_bytes": 0}
    return FetchRequest(**{**defaults, **fields}, topics=[topic])  # type: ignore[arg-type]


def fetch(world: World, version: int) -> FetchRequest:
    return fetch_from(world.topic, world.topic_id, version, FetchPartition(partition=0, partition_max_bytes=1 << 20))


def list_offsets(world: World, version: int) -> ListOffsetsRequest:
    partition = ListOffsetsPartition(partition_index=0, timestamp=LATEST)
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=world.topic, partitions=[partition])])


def metadata(world: World, version: int) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=world.topic)])


def api_versions(world: World, version: int) -> ApiVersionsRequest:
    if version < 3:
        return ApiVersionsRequest()
    return ApiVersionsRequest(client_software_name="wire", client_software_version="1.0")


def create_topics(world: World, version: int) -> CreateTopicsRequest:
    configs = [CreatableTopicConfig(name="retention.ms", value="1000000")]
    topic = CreatableTopic(name=world.new_name(), num_partitions=2, replication_factor=1, configs=configs)
    return CreateTopicsRequest(topics=[topic], timeout_ms=5000)


def delete_topics(world: World, version: int) -> DeleteTopicsRequest:
    name = world.expendable()
    if version < 6:
        return DeleteTopicsRequest(topic_names=[name], timeout_ms=5000)
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=world.id_of(name))], timeout_ms=5000)


def delete_records(world: World, version: int) -> DeleteRecordsRequest:
    partition = DeleteRecordsPartition(partition_index=0, offset=1)
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=world.topic, partitions=[partition])], timeout_ms=5000)


def init_producer_id(world: World, version: int) -> InitProducerIdRequest:
    return InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)


def offset_for_leader_epoch(world: World, version: int) -> OffsetForLeaderEpochRequest:
    partition = OffsetForLeaderPartition(partition=0, leader_epoch=0)
    topic = OffsetForLeaderTopic(topic=world.topic, partitions=[partition])
    fields = {"replica_id": -1} if version >= 3 else {}
    return OffsetForLeaderEpochRequest(**fields, topics=[topic])


def describe_configs(world: World, version: int) -> DescribeConfigsRequest:
    resources = [
        DescribeConfigsResource(resource_type=TOPIC, resource_name=world.topic, configuration_keys=None),
        DescribeConfigsResource(resource_type=BROKER, resource_name=BROKER_ID, configuration_keys=["log.dirs"]),
        DescribeConfigsResource(resource_type=BROKER, resource_name="", configuration_keys=None),
    ]
    return DescribeConfigsRequest(
        resources=resources, include_synonyms=True, **({"include_documentation": True} if version >= 3 else {})
    )


def alter_configs(world: World, version: int) -> AlterConfigsRequest:
    configs = [AlterableConfig(name="retention.ms", value="5000000")]
    resource = AlterConfigsResource(resource_type=TOPIC, resource_name=world.expendable(), configs=configs)
    return AlterConfigsRequest(resources=[resource])


def incremental_alter_configs(world: World, version: int) -> IncrementalAlterConfigsRequest:
    configs = [IncrementalConfig(name="retention.ms", config_operation=0, value="6000000")]
    resource = IncrementalResource(resource_type=TOPIC, resource_name=world.expendable(), configs=configs)
    return IncrementalAlterConfigsRequest(resources=[resource])


def alter_replica_log_dirs(world: World, version: int) -> Message:
    """To a directory that is not there: nobody here knows which are."""
    topic = AlterReplicaLogDirTopic(name=world.topic, partitions=[0])
    return AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path="/nowhere", topics=[topic])])


def describe_log_dirs(world: World, version: int) -> DescribeLogDirsRequest:
    return DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic=world.topic, partitions=[0])])


def create_partitions(world: World, version: int) -> CreatePartitionsRequest:
    topic = CreatePartitionsTopic(name=world.expendable(), count=3, assignments=None)
    return CreatePartitionsRequest(topics=[topic], timeout_ms=5000)


def describe_quorum(world: World, version: int) -> DescribeQuorumRequest:
    topic = QuorumTopic(topic_name=METADATA_TOPIC, partitions=[QuorumPartition(partition_index=0)])
    return DescribeQuorumRequest(topics=[topic])


def describe_cluster(world: World, version: int) -> DescribeClusterRequest:
    return DescribeClusterRequest(include_cluster_authorized_operations=True)


def list_config_resources(world: World, version: int) -> ListConfigResourcesRequest:
    return ListConfigResourcesRequest(resource_types=[TOPIC, BROKER, CLIENT_METRICS] if version >= 1 else [])


def get_telemetry_subscriptions(world: World, version: int) -> Message:
    return GetTelemetrySubscriptionsRequest(client_instance_id=UUID(int=0))


def push_telemetry(world: World, version: int) -> Message:
    """Of a client that the broker does not know, and that is asked for nothing."""
    instance_id = uuid4()
    subscription_id = Wanted((), DEFAULT_INTERVAL_MS).subscription_id(instance_id)
    return PushTelemetryRequest(client_instance_id=instance_id, subscription_id=subscription_id)


def describe_topic_partitions(world: World, version: int) -> DescribeTopicPartitionsRequest:
    return DescribeTopicPartitionsRequest(topics=[TopicRequest(name=world.topic)])


def elect_leaders(world: World, version: int) -> Message:
    return ElectLeadersRequest(topic_partitions=None)


def alter_partition_reassignments(world: World, version: int) -> Message:
    partition = ReassignablePartition(partition_index=0, replicas=[1])
    return AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=world.topic, partitions=[partition])])


def list_partition_reassignments(world: World, version: int) -> Message:
    return ListPartitionReassignmentsRequest(topics=None)


def unregister_broker(world: World, version: int) -> Message:
    """Of a broker that is not there: to unregister the only one would trouble who comes next."""
    return UnregisterBrokerRequest(broker_id=77)


def update_features(world: World, version: int) -> Message:
    key = FeatureUpdateKey(feature="metadata.version", max_version_level=LATEST_METADATA_VERSION)
    return UpdateFeaturesRequest(feature_updates=[key])


def add_raft_voter(world: World, version: int) -> Message:
    """Who votes already: there is nobody else here who could."""
    listener = AddedListener(name="CONTROLLER", host="127.0.0.1", port=1)
    return AddRaftVoterRequest(cluster_id=None, voter_id=1, voter_directory_id=UUID(int=1 << 100), listeners=[listener])


def remove_raft_voter(world: World, version: int) -> Message:
    return RemoveRaftVoterRequest(cluster_id=None, voter_id=77, voter_directory_id=UUID(int=1 << 100))


def of_coordinators(key: ApiKey) -> Callable[[World, int], Message]:
    """The request of a group's or a transaction's API about the world's topic."""
    make = {**VALID_OF_GROUPS, **VALID_OF_TRANSACTIONS}[key]
    return lambda world, version: make(world.topic, world.topic_id, version, world.new_name())


def of_security(key: ApiKey) -> Callable[[World, int], Message]:
    return lambda world, version: VALID_OF_SECURITY[key]()


VALID: Mapping[ApiKey, Callable[[World, int], Message]] = {
    ApiKey.PRODUCE: produce,
    ApiKey.FETCH: fetch,
    ApiKey.LIST_OFFSETS: list_offsets,
    ApiKey.METADATA: metadata,
    ApiKey.API_VERSIONS: api_versions,
    ApiKey.CREATE_TOPICS: create_topics,
    ApiKey.DELETE_TOPICS: delete_topics,
    ApiKey.DELETE_RECORDS: delete_records,
    ApiKey.INIT_PRODUCER_ID: init_producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch,
    ApiKey.DESCRIBE_CONFIGS: describe_configs,
    ApiKey.ALTER_CONFIGS: alter_configs,
    ApiKey.ALTER_REPLICA_LOG_DIRS: alter_replica_log_dirs,
    ApiKey.DESCRIBE_LOG_DIRS: describe_log_dirs,
    ApiKey.CREATE_PARTITIONS: create_partitions,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs,
    ApiKey.DESCRIBE_QUORUM: describe_quorum,
    ApiKey.DESCRIBE_CLUSTER: describe_cluster,
    ApiKey.LIST_CONFIG_RESOURCES: list_config_resources,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: get_telemetry_subscriptions,
    ApiKey.PUSH_TELEMETRY: push_telemetry,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: describe_topic_partitions,
    ApiKey.ELECT_LEADERS: elect_leaders,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: alter_partition_reassignments,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: list_partition_reassignments,
    ApiKey.UNREGISTER_BROKER: unregister_broker,
    ApiKey.UPDATE_FEATURES: update_features,
    ApiKey.ADD_RAFT_VOTER: add_raft_voter,
    ApiKey.REMOVE_RAFT_VOTER: remove_raft_voter,
    **{key: of_coordinators(key) for key in (*VALID_OF_GROUPS, *VALID_OF_TRANSACTIONS)},
    **{key: of_security(key) for key in VALID_OF_SECURITY},
}
"""A request that succeeds, by API; the version says which fields it may use."""
