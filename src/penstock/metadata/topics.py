"""Creating and deleting topics, and adding partitions: the controller's side of three APIs.

The rules and sentences are those of Kafka 4.3's ReplicationControlManager and ControllerApis. An error of one topic
leaves the others alone. A wide request is decided part by part: `SoFar` is what its parts have in common.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID

from penstock.errors import ErrorCode, RequestError
from penstock.metadata.configs import SET, ConfigChange, alter
from penstock.metadata.image import ConfigResource, TopicImage
from penstock.metadata.limits import (
    CONFIGS_PER_RESOURCE_MAX,
    CONTROLLER_RECORDS_PER_BATCH_MAX,
    PARTITIONS_PER_REQUEST_MAX,
    PARTITIONS_PER_TOPIC_MAX,
)
from penstock.metadata.names import check_topic_name, collision_key
from penstock.metadata.partitions import Placer, active_of, check_assignment, new_partition
from penstock.metadata.result import ApiError, MetadataMessage, Result
from penstock.protocol.messages.metadata.partition_record import PartitionRecord
from penstock.protocol.messages.metadata.remove_topic_record import RemoveTopicRecord
from penstock.protocol.messages.metadata.topic_record import TopicRecord

if TYPE_CHECKING:
    from penstock.metadata.controller import Controller
    from penstock.protocol.messages.create_partitions_request import CreatePartitionsTopic
    from penstock.protocol.messages.create_topics_request import CreatableTopic

TOO_MANY_RECORDS = (
    f"Unable to perform excessively large batch operation: at most {CONTROLLER_RECORDS_PER_BATCH_MAX} records."
)
ALL_FENCED = "All brokers are currently fenced or in controlled shutdown."


@dataclass(slots=True)
class SoFar:
    """What the parts of a request have in common.

    Attributes: `records`, their number so far; `names_by_key`, the names of new topics by collision key; `mutated`,
    called with the number of partitions before they are created or deleted: raises RequestError if that must wait.
    """

    records: int = 0
    names_by_key: dict[str, str] = field(default_factory=dict)
    mutated: Callable[[int], None] = lambda partitions: None


@dataclass(slots=True)
class CreatedTopic:
    """A topic that will exist once the records are committed."""

    name: str
    id: UUID
    partition_count: int
    replication_factor: int
    configs: dict[str, str]


def partitions_wanted(controller: Controller, topic: CreatableTopic) -> int:
    """The requested number of partitions of a topic; below 0 if it is invalid."""
    default = controller.settings.num_partitions
    return len(topic.assignments) or (default if topic.num_partitions == -1 else topic.num_partitions)


def create_topics(
    controller: Controller, wanted: Sequence[CreatableTopic], so_far: SoFar | None = None
) -> Result[list[CreatedTopic | ApiError]]:
    """Creates topics, whose names are all different. The response has one entry for each, in their order.

    Raises RequestError POLICY_VIOLATION for more partitions than one request may create; with `so_far` the caller has
    checked that.
    """
    if so_far is None:
        check_request_size(partitions_wanted(controller, topic) for topic in wanted)
        so_far = SoFar()
    records: list[MetadataMessage] = []
    answers: list[CreatedTopic | ApiError] = []
    for topic in wanted:
        try:
            check_new_name(controller, topic.name)
            of_topic = records_of(controller, topic)
            so_far.mutated(of_topic.response.partition_count)
            if so_far.records + len(of_topic.records) > CONTROLLER_RECORDS_PER_BATCH_MAX:
                raise RequestError(ErrorCode.POLICY_VIOLATION, TOO_MANY_RECORDS)
            key = collision_key(topic.name)
            if key is not None and so_far.names_by_key.setdefault(key, topic.name) != topic.name:
                raise collision(topic.name, so_far.names_by_key[key])
        except RequestError as error:
            answers.append(ApiError.of(error))
        else:
            records.extend(of_topic.records)
            so_far.records += len(of_topic.records)
            answers.append(of_topic.response)
    return Result(answers, records)


def check_new_name(controller: Controller, name: str) -> None:
    """Raises RequestError for a name that cannot be, collides with a topic's, or is taken."""
    check_topic_name(name)
    if name in controller.image.topics_by_name:
        raise RequestError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    key = collision_key(name)
    existing = None if key is None else controller.colliding_names.get(key)
    if existing:
        raise collision(name, existing[0])


def collision(name: str, existing: str) -> RequestError:
    return RequestError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {existing}")


def records_of(controller: Controller, topic: CreatableTopic) -> Result[CreatedTopic]:
    """All records of one new topic, in Kafka's order: topic, configs, partitions."""
    if len(topic.configs) > CONFIGS_PER_RESOURCE_MAX:
        raise RequestError(ErrorCode.INVALID_CONFIG, f"More than {CONFIGS_PER_RESOURCE_MAX} configs.")
    nulls = [config.name for config in topic.configs if config.value is None]
    if nulls:
        raise RequestError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(nulls)}")
    configs = {config.name: config.value or "" for config in topic.configs}
    changes = [ConfigChange(name, SET, value) for name, value in configs.items()]
    config_records = alter(controller, (ConfigResource.TOPIC, topic.name), changes, is_new=True)
    topic_id = controller.random_id()
    partitions = assigned_partitions(controller, topic, topic_id) if topic.assignments else None
    if partitions is None:
        partitions = placed_partitions(controller, topic, topic_id)
    created = CreatedTopic(topic.name, topic_id, len(partitions), len(partitions[0].replicas), configs)
    return Result(created, [TopicRecord(name=topic.name, topic_id=topic_id), *config_records, *partitions])


def assigned_partitions(controller: Controller, topic: CreatableTopic, topic_id: UUID) -> list[PartitionRecord]:
    """The partitions of a topic whose replicas the request names."""
    if topic.replication_factor != -1:
        raise RequestError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        )
    if topic.num_partitions != -1:
        raise RequestError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        )
    brokers = controller.image.brokers
    replication_factor = None
    records: dict[int, PartitionRecord] = {}
    for assignment in topic.assignments:
        index, replicas = assignment.partition_index, assignment.broker_ids
        if index in records:
            raise invalid_assignment(f"Found multiple manual partition assignments for partition {index}")
        check_assignment(replicas, replication_factor, brokers)
        replication_factor = len(replicas)
        isr = active_of(replicas, brokers)
        if not isr:
            raise all_assigned_fenced(index)
        records[index] = new_partition(topic_id, index, replicas, isr, brokers)
    if set(records) != set(range(len(records))):
        raise invalid_assignment("partitions should be a consecutive 0-based integer sequence")
    return [records[index] for index in range(len(records))]


def invalid_assignment(sentence: str) -> RequestError:
    return RequestError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, sentence)


def all_assigned_fenced(index: int) -> RequestError:
    return invalid_assignment(
        f"All brokers specified in the manual partition assignment for partition {index} are fenced or in controlled "
        "shutdown."
    )


def placed_partitions(controller: Controller, topic: CreatableTopic, topic_id: UUID) -> list[PartitionRecord]:
    """The partitions of a topic that we place."""
    if topic.replication_factor < -1 or topic.replication_factor == 0:
        raise RequestError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.num_partitions < -1 or topic.num_partitions == 0:
        raise RequestError(
            ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
        )
    settings = controller.settings
    count = settings.num_partitions if topic.num_partitions == -1 else topic.num_partitions
    factor = settings.default_replication_factor if topic.replication_factor == -1 else topic.replication_factor
    try:
        return placed(controller, topic_id, 0, count, factor)
    except RequestError as error:
        if error.code is not ErrorCode.INVALID_REPLICATION_FACTOR:
            raise
        raise RequestError(error.code, f"Unable to replicate the partition {factor} time(s): {error.message}") from None


def check_request_size(counts: Iterable[int]) -> None:
    """Raises RequestError when a request creates more partitions than it may; counts below 0 are other errors."""
    if sum(count for count in counts if count > 0) > PARTITIONS_PER_REQUEST_MAX:
        raise RequestError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")


def placed(controller: Controller, topic_id: UUID, first: int, count: int, factor: int) -> list[PartitionRecord]:
    """Records of `count` partitions from index `first` on, on brokers of our choice."""
    brokers = controller.image.brokers
    placer = Placer(brokers, controller.random)
    records = []
    for index in range(first, first + count):
        replicas = placer.place(factor)
        isr = active_of(replicas, brokers)
        if not isr:
            raise RequestError(ErrorCode.INVALID_REPLICATION_FACTOR, ALL_FENCED)
        records.append(new_partition(topic_id, index, replicas, isr, brokers))
    return records


def delete_topics(
    controller: Controller, ids: Collection[UUID], so_far: SoFar | None = None
) -> Result[list[tuple[UUID, ApiError]]]:
    """Deletes topics by id; unknown ids are answered as such."""
    so_far = so_far or SoFar()
    answers: list[tuple[UUID, ApiError]] = []
    records: list[MetadataMessage] = []
    for topic_id in ids:
        try:
            topic = controller.image.topics_by_id.get(topic_id)
            if topic is None:
                raise RequestError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
            so_far.mutated(len(topic.partitions))
        except RequestError as error:
            answers.append((topic_id, ApiError.of(error)))
        else:
            answers.append((topic_id, ApiError()))
            records.append(RemoveTopicRecord(topic_id=topic_id))
    return Result(answers, records)


def create_partitions(
    controller: Controller, wanted: Sequence[CreatePartitionsTopic], so_far: SoFar | None = None
) -> Result[list[ApiError]]:
    """Adds partitions to topics, whose names are all different. One answer for each, in their order."""
    so_far = so_far or SoFar()
    answers: list[ApiError] = []
    records: list[MetadataMessage] = []
    for topic in wanted:
        try:
            added = added_partitions(controller, topic)
            check_request_size([so_far.records, len(added)])
            so_far.mutated(len(added))
            so_far.records += len(added)
            records.extend(added)
        except RequestError as error:
            answers.append(ApiError.of(error))
        else:
            answers.append(ApiError())
    return Result(answers, records)


def partitions_added(controller: Controller, wanted: CreatePartitionsTopic) -> int:
    """How many partitions a topic may get, at least 1."""
    topic = controller.image.topics_by_name.get(wanted.name)
    return 1 if topic is None else max(1, wanted.count - len(topic.partitions))


def added_partitions(controller: Controller, wanted: CreatePartitionsTopic) -> list[PartitionRecord]:
    """The records of the partitions that a topic lacks."""
    topic = controller.image.topics_by_name.get(wanted.name)
    if topic is None:
        raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    have = len(topic.partitions)
    if wanted.count == have:
        raise RequestError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {have} partition(s).")
    if wanted.count < have:
        raise RequestError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {wanted.name} currently has {have} partition(s); {wanted.count} would not be an increase.",
        )
    additional = wanted.count - have
    check_request_size([additional])
    if wanted.assignments is not None and len(wanted.assignments) != additional:
        raise invalid_assignment(
            f"Attempted to add {additional} additional partition(s), but only {len(wanted.assignments)} assignment(s) "
            "were specified."
        )
    if wanted.count > PARTITIONS_PER_TOPIC_MAX:
        raise RequestError(
            ErrorCode.INVALID_PARTITIONS,
            f"A topic may have at most {PARTITIONS_PER_TOPIC_MAX} partitions, not {wanted.count}.",
        )
    factor = len(topic.partitions[0].replicas)
    if wanted.assignments is None:
        return placed(controller, topic.id, have, additional, factor)
    return [
        assigned_partition(controller, topic, have + number, assignment.broker_ids, factor)
        for number, assignment in enumerate(wanted.assignments)
    ]


def assigned_partition(
    controller: Controller, topic: TopicImage, index: int, replicas: Sequence[int], factor: int
) -> PartitionRecord:
    brokers = controller.image.brokers
    check_assignment(replicas, factor, brokers)
    isr = active_of(replicas, brokers)
    if not isr:
        raise all_assigned_fenced(index)
    return new_partition(topic.id, index, replicas, isr, brokers)
