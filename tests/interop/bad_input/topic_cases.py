"""Bad requests about topics: Metadata, DescribeTopicPartitions, CreateTopics, DeleteTopics, DeleteRecords,
CreatePartitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import UUID

from interop.bad_input.case import BAD_NAMES, MISSING, MISSING_ID, Case, of
from interop.clients.valid_requests import (
    METADATA_TOPIC,
)

from penstock.protocol.api import ApiKey
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
from penstock.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from penstock.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.messages.describe_topic_partitions_request import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from penstock.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic


def metadata_cases() -> Iterator[Case]:
    creating, later = of(ApiKey.METADATA, range(4, 14)), of(ApiKey.METADATA, range(12, 14))
    yield creating("unknown topic", lambda world, version: metadata_of(MISSING))
    for name, topic in BAD_NAMES.items():
        yield creating(f"topic name is {name}", lambda world, version, topic=topic: metadata_of(topic))  # type: ignore[misc]
        yield of(ApiKey.METADATA, range(4, 14))(
            f"make a topic whose name is {name}",
            lambda world, version, topic=topic: metadata_of(topic, allow_auto_topic_creation=True),  # type: ignore[misc]
        )
    yield of(ApiKey.METADATA, range(10, 14))("unknown topic id", lambda world, version: metadata_of(None, MISSING_ID))
    yield later("name and id", lambda world, version: metadata_of(world.topic, world.topic_id))
    yield later("neither name nor id", lambda world, version: metadata_of(None))
    yield creating(
        "the same topic twice",
        lambda world, version: MetadataRequest(
            topics=[MetadataRequestTopic(name=world.topic) for _ in range(2)], allow_auto_topic_creation=False
        ),
    )
    partitions = of(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
    for name, topic in {"unknown topic": MISSING, **{f"name is {k}": v for k, v in BAD_NAMES.items()}}.items():
        yield partitions(name, lambda world, version, topic=topic: partitions_described(topic))  # type: ignore[misc]
    for limit in (0, -1):
        yield partitions(f"limit {limit}", lambda world, version, n=limit: partitions_described(world.topic, limit=n))  # type: ignore[misc]
    for name, cursor in {
        "cursor at an unknown topic": Cursor(topic_name=MISSING, partition_index=0),
        "cursor at a negative partition": Cursor(topic_name="corpus", partition_index=-1),
        "cursor beyond the partitions": Cursor(topic_name="corpus", partition_index=99),
    }.items():
        yield partitions(name, lambda world, version, c=cursor: partitions_described(world.topic, cursor=c))  # type: ignore[misc]


def metadata_of(name: str | None, topic_id: UUID = UUID(int=0), **fields: bool) -> MetadataRequest:  # noqa: B008
    topic = MetadataRequestTopic(name=name, topic_id=topic_id)
    return MetadataRequest(topics=[topic], **{"allow_auto_topic_creation": False, **fields})  # type: ignore[arg-type]


def partitions_described(topic: str, limit: int = 2000, cursor: Cursor | None = None) -> DescribeTopicPartitionsRequest:
    return DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=topic)], response_partition_limit=limit, cursor=cursor
    )


def create_topics_cases() -> Iterator[Case]:
    every = of(ApiKey.CREATE_TOPICS)
    for name, topic in BAD_NAMES.items():
        yield every(f"name is {name}", lambda world, version, topic=topic: creating(topic))  # type: ignore[misc]
    yield every("exists", lambda world, version: creating(world.topic))
    yield every("differs from another by dot and underscore", lambda world, version: creating("corpus_dotted"))
    yield every("metadata topic", lambda world, version: creating(METADATA_TOPIC))
    for number in (0, -2, 2**31 - 1):
        yield every(f"{number} partitions", lambda world, version, n=number: creating(num_partitions=n))  # type: ignore[misc]
    for factor in (0, -2, 2, 32767):
        yield every(f"replication factor {factor}", lambda world, version, n=factor: creating(replication_factor=n))  # type: ignore[misc]
    for name, config in {
        "unknown config": ("no.such.config", "1"),
        "config that is no number": ("retention.ms", "ten"),
        "config out of bounds": ("segment.bytes", "1"),
        "config with a null value": ("retention.ms", None),
        "config with an empty name": ("", "1"),
        "unknown cleanup policy": ("cleanup.policy", "burn"),
        "unknown codec": ("compression.type", "rar"),
        "no boolean": ("preallocate", "maybe"),
        "remote storage": ("remote.storage.enable", "true"),
    }.items():
        yield every(name, lambda world, version, c=config: creating(configs=[c]))  # type: ignore[misc]
    yield every("the same config twice", lambda world, version: creating(configs=[("retention.ms", "1")] * 2))
    for name, assignment in {
        "assignment with a gap": {0: [1], 2: [1]},
        "assignment to an unknown broker": {0: [9]},
        "assignment to one broker twice": {0: [1, 1]},
        "assignment without brokers": {0: []},
        "assignment to a negative broker": {0: [-1]},
        "assignment with negative partition": {-1: [1]},
    }.items():
        yield every(name, lambda world, version, a=assignment: assigned(a))  # type: ignore[misc]
    yield every(
        "assignment and a number of partitions",
        lambda world, version: assigned({0: [1]}, num_partitions=1, replication_factor=1),
    )
    yield every(
        "the same topic twice",
        lambda world, version: CreateTopicsRequest(topics=[creatable("twice"), creatable("twice")], timeout_ms=5000),
    )
    yield every("no topics", lambda world, version: CreateTopicsRequest(topics=[], timeout_ms=5000))


def creatable(
    name: str = "never-made",
    num_partitions: int = 1,
    replication_factor: int = 1,
    configs: Sequence[tuple[str, str | None]] = (),
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=num_partitions,
        replication_factor=replication_factor,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs],
    )


def creating(name: str = "never-made", **fields: object) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[creatable(name, **fields)], timeout_ms=5000, validate_only=True)  # type: ignore[arg-type]


def assigned(
    assignment: dict[int, list[int]], num_partitions: int = -1, replication_factor: int = -1
) -> CreateTopicsRequest:
    topic = creatable(num_partitions=num_partitions, replication_factor=replication_factor)
    topic.assignments = [CreatableReplicaAssignment(partition_index=k, broker_ids=v) for k, v in assignment.items()]
    return CreateTopicsRequest(topics=[topic], timeout_ms=5000, validate_only=True)


def delete_cases() -> Iterator[Case]:
    by_name, by_either = of(ApiKey.DELETE_TOPICS, range(1, 6)), of(ApiKey.DELETE_TOPICS, range(6, 7))
    for name, topic in {"unknown topic": MISSING, **{f"name is {k}": v for k, v in BAD_NAMES.items()}}.items():
        yield by_name(name, lambda world, version, t=topic: DeleteTopicsRequest(topic_names=[t], timeout_ms=5000))  # type: ignore[misc]
        yield by_either(name, lambda world, version, t=topic: deleting(DeleteTopicState(name=t)))  # type: ignore[misc]
    yield by_either("unknown id", lambda world, version: deleting(DeleteTopicState(name=None, topic_id=MISSING_ID)))
    yield by_either(
        "name and id", lambda world, version: deleting(DeleteTopicState(name=world.topic, topic_id=world.topic_id))
    )
    yield by_either("neither name nor id", lambda world, version: deleting(DeleteTopicState(name=None)))
    yield by_either(
        "twice", lambda world, version: deleting(DeleteTopicState(name=MISSING), DeleteTopicState(name=MISSING))
    )
    records = of(ApiKey.DELETE_RECORDS)
    for name, fields in {
        "offset beyond the end": {"offset": 10**6},
        "negative offset": {"offset": -5},
        "unknown partition": {"partition_index": 99},
        "negative partition": {"partition_index": -1},
    }.items():
        yield records(name, lambda world, version, f=fields: deleting_records(world.topic, **f))  # type: ignore[misc]
    yield records("unknown topic", lambda world, version: deleting_records(MISSING))
    yield records("internal topic", lambda world, version: deleting_records(METADATA_TOPIC))
    yield records("compacted topic", lambda world, version: deleting_records("corpus.dotted"))


def deleting(*topics: DeleteTopicState) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topics=list(topics), timeout_ms=5000)


def deleting_records(topic: str, **fields: int) -> DeleteRecordsRequest:
    partition = DeleteRecordsPartition(**{"partition_index": 0, "offset": 0, **fields})  # type: ignore[arg-type]
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[partition])], timeout_ms=5000)


def partitions_cases() -> Iterator[Case]:
    every = of(ApiKey.CREATE_PARTITIONS)
    yield of(ApiKey.CREATE_PARTITIONS, (3,))("to 20000 partitions", lambda world, version: growing(world.topic, 20_000))
    for number in (-1, 0, 1):
        yield every(f"to {number} partitions", lambda world, version, n=number: growing(world.topic, n))  # type: ignore[misc]
    for name, topic in {"unknown topic": MISSING, **{f"name is {k}": v for k, v in BAD_NAMES.items()}}.items():
        yield every(name, lambda world, version, t=topic: growing(t, 3))  # type: ignore[misc]
    for name, assignments in {
        "too few assignments": [[1]],
        "too many assignments": [[1], [1], [1]],
        "assignment to an unknown broker": [[1], [9]],
        "assignment to one broker twice": [[1], [1, 1]],
        "assignment without brokers": [[1], []],
    }.items():
        yield every(name, lambda world, version, a=assignments: growing(world.topic, 3, a))  # type: ignore[misc]
    yield every(
        "the same topic twice",
        lambda world, version: CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=world.topic, count=3, assignments=None) for _ in range(2)],
            timeout_ms=5000,
        ),
    )


def growing(topic: str, number: int, assignments: list[list[int]] | None = None) -> CreatePartitionsRequest:
    wanted = None if assignments is None else [CreatePartitionsAssignment(broker_ids=each) for each in assignments]
    row = CreatePartitionsTopic(name=topic, count=number, assignments=wanted)
    return CreatePartitionsRequest(topics=[row], timeout_ms=5000, validate_only=True)
