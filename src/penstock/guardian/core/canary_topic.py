"""The topic of the canaries: a partition for each broker, with that broker as its only replica.

So each partition is led by its broker, in Penstock and in Apache Kafka, and what it measures is that broker alone.
Nothing of it is worth keeping. When a broker comes, a partition is added for it; when one goes for good, its partition
stays behind without a leader: Kafka removes none, and nobody misses it (`alarms.census` and `alarms.evacuation` leave
it out).
"""

from __future__ import annotations

from penstock.guardian.core.sight import CANARY_TOPIC, ClusterSight, SeenPartition, SeenTopic
from penstock.protocol.message import Message
from penstock.protocol.messages.create_partitions_request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from penstock.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)

CONFIGS = {
    "cleanup.policy": "delete",
    "min.insync.replicas": "1",
    "retention.ms": "3600000",
    "retention.bytes": "1048576",
    "segment.bytes": "1048576",
}
"""A broker keeps two segments of a megabyte of it at most."""
TIMEOUT_MS = 10_000
BY_ASSIGNMENT = -1


def lacking(seen: ClusterSight) -> Message | None:
    """What must be asked for so that each living broker has its partition; None for nothing."""
    topic = seen.topics.get(CANARY_TOPIC)
    have = {each.replicas[0] for each in topic.partitions if len(each.replicas) == 1} if topic is not None else {}
    missing = [each for each in sorted(seen.brokers) if each not in have]
    if not missing:
        return None
    if topic is not None:
        more = CreatePartitionsTopic(
            name=CANARY_TOPIC,
            count=len(topic.partitions) + len(missing),
            assignments=[CreatePartitionsAssignment(broker_ids=[each]) for each in missing],
        )
        return CreatePartitionsRequest(topics=[more], timeout_ms=TIMEOUT_MS)
    new = CreatableTopic(
        name=CANARY_TOPIC,
        num_partitions=BY_ASSIGNMENT,
        replication_factor=BY_ASSIGNMENT,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=[each]) for index, each in enumerate(missing)
        ],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in CONFIGS.items()],
    )
    return CreateTopicsRequest(topics=[new], timeout_ms=TIMEOUT_MS)


def partitions_of(seen: ClusterSight) -> tuple[SeenTopic | None, dict[int, SeenPartition]]:
    """The topic, and by broker the partition that is its canary's: one that it alone has, and leads."""
    topic = seen.topics.get(CANARY_TOPIC)
    found: dict[int, SeenPartition] = {}
    for each in topic.partitions if topic is not None else ():
        if len(each.replicas) == 1 and each.leader == each.replicas[0] and each.leader in seen.brokers:
            found.setdefault(each.leader, each)
    return topic, found
