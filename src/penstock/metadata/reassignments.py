"""Reassignments: moving partitions to other replicas, in three steps that the records themselves remember.

1. A change puts the new replicas beside the old ones, and names which are being added and which removed.
2. The new replicas catch up and join the in-sync replicas by AlterPartition.
3. The change that completes their joining (`partition_change`) also drops the removed ones and the two lists.

A mere new order of the same replicas completes at once. A cancelled reassignment goes back to the replicas before.
The rules and sentences are those of Kafka 4.3's ReplicationControlManager.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.errors import ErrorCode, RequestError
from penstock.metadata.image import MetadataImage, PartitionRegistration, TopicImage
from penstock.metadata.indexes import PartitionIndexes, partition_index, topic_number
from penstock.metadata.limits import CONTROLLER_RECORDS_PER_BATCH_MAX
from penstock.metadata.partition_change import changed_partition
from penstock.metadata.partitions import check_assignment
from penstock.metadata.result import OK, ApiError, Result
from penstock.protocol.messages.metadata.partition_change_record import PartitionChangeRecord

if TYPE_CHECKING:
    from penstock.metadata.controller import Controller

TOO_MANY = f"Unable to perform excessively large batch operation: at most {CONTROLLER_RECORDS_PER_BATCH_MAX} records."


@dataclass(frozen=True, slots=True)
class Reassignment:
    """The requested replicas of one partition in order of preference, or None to cancel."""

    topic: str
    index: int
    replicas: Sequence[int] | None


def alter_reassignments(
    controller: Controller, wanted: Sequence[Reassignment], *, allow_replication_factor_change: bool = True
) -> Result[list[ApiError]]:
    """Begins, changes or cancels reassignments; one answer for each, in their order (KIP-455, KIP-860).

    Raises RequestError POLICY_VIOLATION when more partitions change than fit one batch.
    """
    answers: list[ApiError] = []
    records: list[PartitionChangeRecord] = []
    for each in wanted:
        try:
            record = altered(controller, each, allow_replication_factor_change)
        except RequestError as error:
            answers.append(ApiError(error.code, error.message or None))
            continue
        answers.append(OK)
        if record is not None:
            records.append(record)
            if len(records) > CONTROLLER_RECORDS_PER_BATCH_MAX:
                raise RequestError(ErrorCode.POLICY_VIOLATION, TOO_MANY)
    return Result(answers, records)


def altered(controller: Controller, wanted: Reassignment, allow_factor_change: bool) -> PartitionChangeRecord | None:
    """The change of one partition; None when it is as wanted already. Raises RequestError."""
    topic = controller.image.topics_by_name.get(wanted.topic)
    if topic is None:
        raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {wanted.topic}.")
    if not 0 <= wanted.index < len(topic.partitions):
        raise RequestError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {wanted.topic}:{wanted.index}."
        )
    if wanted.replicas is None:
        return cancelled(controller, topic, wanted.index)
    check_assignment(wanted.replicas, None, controller.image.brokers)
    if not allow_factor_change:
        check_factor(topic.partitions[wanted.index], wanted.replicas)
    return begun(controller, topic, wanted.index, wanted.replicas)


def begun(controller: Controller, topic: TopicImage, index: int, target: Sequence[int]) -> PartitionChangeRecord | None:
    """The change that begins a reassignment; it also ends one whose new replicas are in sync already.

    Replicas that an earlier reassignment was adding, and that the new one does not want, are removed from now on.
    """
    partition = topic.partitions[index]
    removing = sorted(set(partition.replicas) - set(target))
    adding = sorted(set(target) - set(partition.replicas))
    return changed_partition(
        controller,
        topic,
        index,
        replicas=(*target, *removing),
        removing=tuple(removing) if removing else None,
        adding=tuple(adding) if adding else None,
    )


def cancelled(controller: Controller, topic: TopicImage, index: int) -> PartitionChangeRecord | None:
    """The change that takes a reassignment back. Raises RequestError when there is none, or when it needs an unclean
    election that the topic forbids."""
    partition = topic.partitions[index]
    if not in_progress(partition):
        raise RequestError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    replicas = tuple(each for each in partition.replicas if each not in partition.adding_replicas)
    if not replicas:
        raise RequestError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Invalid replica assignment: addingReplicas contains all replicas."
        )
    isr = tuple(each for each in partition.isr if each not in partition.adding_replicas)
    unclean = controller.unclean_election_allowed(topic.name)
    if not isr and not unclean:
        raise RequestError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert partition assignment for {topic.name}:{index} because it would require an unclean "
            "leader election.",
        )
    return changed_partition(
        controller, topic, index, isr=isr or replicas[:1], replicas=replicas, removing=(), adding=(), unclean=unclean
    )


def check_factor(partition: PartitionRegistration, target: Sequence[int]) -> None:
    """Raises RequestError if the reassignment would change the number of replicas (KIP-860)."""
    have = len(set(partition.replicas) - set(partition.removing_replicas))
    if have != len(target):
        raise RequestError(
            ErrorCode.INVALID_REPLICATION_FACTOR, f"The replication factor is changed from {have} to {len(target)}"
        )


def in_progress(partition: PartitionRegistration) -> bool:
    """Whether a partition is being reassigned."""
    return bool(partition.adding_replicas or partition.removing_replicas)


def list_reassignments(
    image: MetadataImage, indexes: PartitionIndexes, wanted: Sequence[tuple[str, Sequence[int]]] | None
) -> list[tuple[TopicImage, list[int]]]:
    """The partitions that are being reassigned, of the topics and partitions named, or None for all.

    `image` may be older than the indexes (committed only): what has ended since is still listed, what has begun since
    is not, but for topics that are named.
    """
    if wanted is None:
        asked: dict[int, list[int]] = {}
        for key in indexes.reassigning:
            asked.setdefault(topic_number(key), []).append(partition_index(key))
        topics = ((image.topics_by_id.by_integer.get(number), found) for number, found in sorted(asked.items()))
    else:
        topics = ((image.topics_by_name.get(name), list(partitions)) for name, partitions in wanted)
    listed = []
    for topic, partitions in topics:
        if topic is not None:
            moving = [
                each for each in partitions if 0 <= each < len(topic.partitions) and in_progress(topic.partitions[each])
            ]
            if moving:
                listed.append((topic, sorted(moving) if wanted is None else moving))
    return listed
