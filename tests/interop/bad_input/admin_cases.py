"""Bad requests about producers, configs, the quorum, log directories and the cluster."""

from __future__ import annotations

from collections.abc import Iterator

from interop.bad_input.case import MISSING, Case, of
from interop.clients.valid_requests import (
    BROKER,
    METADATA_TOPIC,
    TOPIC,
)

from penstock.protocol.api import ApiKey
from penstock.protocol.messages.alter_configs_request import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from penstock.protocol.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.describe_cluster_request import DescribeClusterRequest
from penstock.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from penstock.protocol.messages.describe_log_dirs_request import DescribableLogDirTopic, DescribeLogDirsRequest
from penstock.protocol.messages.describe_quorum_request import DescribeQuorumRequest
from penstock.protocol.messages.describe_quorum_request import PartitionData as QuorumPartition
from penstock.protocol.messages.describe_quorum_request import TopicData as QuorumTopic
from penstock.protocol.messages.incremental_alter_configs_request import AlterableConfig as IncrementalConfig
from penstock.protocol.messages.incremental_alter_configs_request import AlterConfigsResource as IncrementalResource
from penstock.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from penstock.protocol.messages.init_producer_id_request import InitProducerIdRequest
from penstock.protocol.messages.list_config_resources_request import ListConfigResourcesRequest


def producer_cases() -> Iterator[Case]:
    every, later = of(ApiKey.INIT_PRODUCER_ID), of(ApiKey.INIT_PRODUCER_ID, range(3, 6))
    yield every(
        "empty transactional id",
        lambda world, version: InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1000),
    )
    for name, (producer_id, epoch) in {"id without epoch": (5, -1), "epoch without id": (-1, 5)}.items():
        yield later(
            name,
            lambda world, version, p=producer_id, e=epoch: InitProducerIdRequest(  # type: ignore[misc]
                transactional_id=None, transaction_timeout_ms=1000, producer_id=p, producer_epoch=e
            ),
        )


RESOURCES = {
    "unknown topic": (TOPIC, MISSING),
    "empty topic name": (TOPIC, ""),
    "bad topic name": (TOPIC, "a/b"),
    "unknown broker": (BROKER, "99"),
    "broker that is no number": (BROKER, "one"),
    "unknown resource type": (77, "x"),
    "resource type 0": (0, "x"),
    "unknown broker's loggers": (8, "99"),
    "loggers without a broker": (8, ""),
}
CONFIGS: dict[str, tuple[str, str | None]] = {
    "unknown config": ("no.such.config", "1"),
    "empty config name": ("", "1"),
    "no number": ("retention.ms", "ten"),
    "out of bounds": ("segment.bytes", "1"),
    "null value": ("retention.ms", None),
    "unknown policy": ("cleanup.policy", "burn"),
}


def configs_cases() -> Iterator[Case]:
    describe, alter, incremental = (
        of(ApiKey.DESCRIBE_CONFIGS),
        of(ApiKey.ALTER_CONFIGS),
        of(ApiKey.INCREMENTAL_ALTER_CONFIGS),
    )
    for name, (kind, resource) in RESOURCES.items():
        yield describe(name, lambda world, version, k=kind, r=resource: described(k, r))  # type: ignore[misc]
        yield alter(name, lambda world, version, k=kind, r=resource: altered(k, r, ("retention.ms", "1")))  # type: ignore[misc]
        yield incremental(name, lambda world, version, k=kind, r=resource: changed(k, r, ("retention.ms", 0, "1")))  # type: ignore[misc]
    for name, (key, value) in CONFIGS.items():
        yield alter(name, lambda world, version, c=(key, value): altered(TOPIC, world.topic, c))  # type: ignore[misc]
        yield incremental(name, lambda world, version, c=(key, 0, value): changed(TOPIC, world.topic, c))  # type: ignore[misc]
    yield alter(
        "the same config twice", lambda world, version: altered(TOPIC, world.topic, *[("retention.ms", "1")] * 2)
    )
    yield incremental(
        "the same config twice",
        lambda world, version: changed(TOPIC, world.topic, *[("retention.ms", 0, "1")] * 2),
    )
    for name, change in {
        "append to what is no list": ("retention.ms", 2, "1"),
        "subtract from what is no list": ("retention.ms", 3, "1"),
        "delete an unknown config": ("no.such.config", 1, None),
        "append nonsense to a list": ("cleanup.policy", 2, "burn"),
    }.items():
        yield incremental(name, lambda world, version, c=change: changed(TOPIC, world.topic, c))  # type: ignore[misc]
    yield of(ApiKey.INCREMENTAL_ALTER_CONFIGS, (1,))(
        "unknown operation", lambda world, version: changed(TOPIC, world.topic, ("retention.ms", 9, "1"))
    )
    for name, config in {
        "read-only broker config": ("log.dirs", "/tmp"),
        "unknown broker config": ("no.such.config", "1"),
        "broker config out of bounds": ("log.retention.ms", "-7"),
        "trust store without a listener": ("ssl.truststore.location", "/tmp/trust"),
        "trust store of a listener": ("listener.name.plaintext.ssl.truststore.location", "/tmp/trust"),
        "connections of a listener": ("listener.name.plaintext.max.connections", "100"),
        "ciphers without a listener": ("ssl.cipher.suites", "TLS_AES_128_GCM_SHA256"),
    }.items():
        yield incremental(f"{name}", lambda world, version, c=config: changed(BROKER, "1", (c[0], 0, c[1])))  # type: ignore[misc]
        yield incremental(
            f"{name}, of all brokers",
            lambda world, version, c=config: changed(BROKER, "", (c[0], 0, c[1])),  # type: ignore[misc]
        )
    yield describe("unknown key", lambda world, version: described(TOPIC, world.topic, ["no.such.config"]))
    for kind in (0, 77, -1):
        yield of(ApiKey.LIST_CONFIG_RESOURCES, (1,))(
            f"resource type {kind}",
            lambda world, version, k=kind: ListConfigResourcesRequest(resource_types=[k]),  # type: ignore[misc]
        )


def described(kind: int, name: str, keys: list[str] | None = None) -> DescribeConfigsRequest:
    row = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    return DescribeConfigsRequest(resources=[row])


def altered(kind: int, name: str, *configs: tuple[str, str | None]) -> AlterConfigsRequest:
    rows = [AlterableConfig(name=key, value=value) for key, value in configs]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=rows)
    return AlterConfigsRequest(resources=[resource], validate_only=True)


def changed(kind: int, name: str, *configs: tuple[str, int, str | None]) -> IncrementalAlterConfigsRequest:
    rows = [IncrementalConfig(name=key, config_operation=operation, value=value) for key, operation, value in configs]
    resource = IncrementalResource(resource_type=kind, resource_name=name, configs=rows)
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=True)


def move_to(path: str, topic: str, index: int) -> AlterReplicaLogDirsRequest:
    topics = [AlterReplicaLogDirTopic(name=topic, partitions=[index])]
    return AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=topics)])


def describe_cases() -> Iterator[Case]:
    quorum, dirs = of(ApiKey.DESCRIBE_QUORUM), of(ApiKey.DESCRIBE_LOG_DIRS)
    for name, (topic, index) in {"another topic": ("corpus", 0), "another partition": (METADATA_TOPIC, 7)}.items():
        yield quorum(name, lambda world, version, t=topic, i=index: quorum_of(t, i))  # type: ignore[misc]
    yield quorum("no topics", lambda world, version: DescribeQuorumRequest(topics=[]))
    for name, (topic, index) in {"unknown topic": (MISSING, 0), "unknown partition": ("corpus", 99)}.items():
        yield dirs(
            name,
            lambda world, version, t=topic, i=index: DescribeLogDirsRequest(  # type: ignore[misc]
                topics=[DescribableLogDirTopic(topic=t, partitions=[i])]
            ),
        )
    moves = of(ApiKey.ALTER_REPLICA_LOG_DIRS)
    for path in ("/nowhere", "", "relative"):
        for topic, index in (("corpus", 0), (MISSING, 0), ("corpus", 99), ("x" * 249, 0), ("", -1)):
            yield moves(
                f"{path or 'no path'} {topic[:10]}-{index}",
                lambda world, version, p=path, t=topic, i=index: move_to(p, t, i),  # type: ignore[misc]
            )
    yield moves("nothing", lambda world, version: AlterReplicaLogDirsRequest(dirs=[]))
    cluster = of(ApiKey.DESCRIBE_CLUSTER, (1, 2))
    for kind in (0, 2, 77):
        yield cluster(f"endpoint type {kind}", lambda world, version, k=kind: DescribeClusterRequest(endpoint_type=k))  # type: ignore[misc]
    for name, (software, release) in {
        "empty software name": ("", "1"),
        "software name with a space": ("a b", "1"),
        "software version with a space": ("wire", "1 0"),
        "software name that ends in a dash": ("wire-", "1"),
    }.items():
        yield of(ApiKey.API_VERSIONS, (3, 4))(
            name,
            lambda world, version, s=software, r=release: ApiVersionsRequest(  # type: ignore[misc]
                client_software_name=s, client_software_version=r
            ),
        )


def quorum_of(topic: str, index: int) -> DescribeQuorumRequest:
    return DescribeQuorumRequest(
        topics=[QuorumTopic(topic_name=topic, partitions=[QuorumPartition(partition_index=index)])]
    )
