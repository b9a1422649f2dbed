"""Log directories of brokers, as far as the controller knows them: assignments, failures, cordons (KIP-858, KIP-1066).

A broker reports in which of its directories a replica lies. When it reports one as failed, the replicas there count as
if the broker were gone: others lead. A cordoned directory keeps its replicas and gets no new ones.

A replica that lies elsewhere now, after its directory was lost, was created again and is empty. Unlike Kafka's, this
controller does not take it for the one that was in sync or eligible (`passes_for_another`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from penstock.errors import ErrorCode
from penstock.metadata import leadership
from penstock.metadata.brokers import change, checked
from penstock.metadata.image import NO_LEADER, BrokerRegistration, PartitionRegistration, TopicImage
from penstock.metadata.indexes import partition_key
from penstock.metadata.partition_change import changed_partition
from penstock.metadata.partitions import MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY
from penstock.metadata.result import MetadataMessage, Result

if TYPE_CHECKING:
    from penstock.metadata.controller import Controller

CORDONS_FROM_LEVEL = 30
"""metadata.version 4.3-IV0: the first at which cordoned directories are recorded."""

TopicIdPartition = tuple[UUID, int]
"""Topic id and partition index."""


def assign_directories(
    controller: Controller, broker_id: int, broker_epoch: int, assignments: Mapping[TopicIdPartition, UUID]
) -> Result[dict[TopicIdPartition, ErrorCode]]:
    """Records in which log directory a broker keeps its replicas (AssignReplicasToDirs).

    `assignments` maps (topic id, partition) to the directory's id. A directory that is not online is recorded as well:
    a replica that is lost with it cannot lead any more. The answer is KAFKA_STORAGE_ERROR for a replica that would be
    elected instead of those that have its records. Raises RequestError STALE_BROKER_EPOCH.
    """
    broker = checked(controller, broker_id, broker_epoch)
    answers: dict[TopicIdPartition, ErrorCode] = {}
    records: list[MetadataMessage] = []
    for (topic_id, index), directory in assignments.items():
        topic = controller.image.topics_by_id.get(topic_id)
        code = ErrorCode.NONE
        if topic is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID
        elif not 0 <= index < len(topic.partitions):
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif broker_id not in topic.partitions[index].replicas:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif passes_for_another(controller, broker, topic, index):
            code = ErrorCode.KAFKA_STORAGE_ERROR
        else:
            remade = broker_id if is_made_anew(broker, topic.partitions[index]) else None
            record = changed_partition(
                controller, topic, index, directory=(broker_id, directory), unclean_shutdown=remade
            )
            records += [] if record is None else [record]
            if directory not in broker.log_dirs:
                lost = leadership.updated(controller, [partition_key(topic_id, index)], leaving=broker_id)
                records += lost
        answers[topic_id, index] = code
    return Result(answers, records, atomic=False)


def is_made_anew(broker: BrokerRegistration, partition: PartitionRegistration) -> bool:
    """Whether a replica's directory is lost, so that the replica was created again, empty."""
    known = partition.directory(broker.id)
    if known is None or known in (UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY):
        return False
    return known not in broker.log_dirs


def passes_for_another(controller: Controller, broker: BrokerRegistration, topic: TopicImage, index: int) -> bool:
    """Whether a recreated, empty replica would be elected in place of the one it used to be.

    It would make the others truncate their logs to nothing. While it is not known to lie in an online directory it is
    not elected, not even uncleanly; that ends when another is elected, or its old directory is back. It does not apply
    if no other replica exists, or the topic prefers losing records to having no leader: then waiting gains nothing.
    """
    partition = topic.partitions[index]
    if not is_made_anew(broker, partition) or partition.leader not in (NO_LEADER, broker.id):
        return False
    counts = broker.id in (*partition.isr, *partition.elr, *partition.last_known_elr)
    return counts and len(partition.replicas) > 1 and not controller.unclean_election_allowed(topic.name)


def report_directories(
    controller: Controller, broker: BrokerRegistration, offline: Sequence[UUID], cordoned: Sequence[UUID] | None
) -> list[MetadataMessage]:
    """The changes after a heartbeat's report of directories: `offline` ones, and those `cordoned` (None: not reported).
    A broker that lost all is about to stop; no record could express that it has none.
    """
    records: list[MetadataMessage] = []
    failed = [directory for directory in broker.log_dirs if directory in offline]
    if failed:
        topics = controller.image.topics_by_id.by_integer
        keys = [
            partition_key(topic.id, index)
            for topic, index in leadership.partitions_of(controller, list(controller.indexes.in_sync_on(broker.id)))
            if topics[topic.id.int].partitions[index].directory(broker.id) in failed
        ]
        records += leadership.updated(controller, keys, leaving=broker.id)
        online = [directory for directory in broker.log_dirs if directory not in failed]
        if online:
            records.append(change(broker, log_dirs=online))
    if (
        cordoned is not None
        and controller.image.metadata_version >= CORDONS_FROM_LEVEL
        and set(cordoned) != set(broker.cordoned_log_dirs)
    ):
        records.append(change(broker, cordoned_log_dirs=cordoned))
    return records
