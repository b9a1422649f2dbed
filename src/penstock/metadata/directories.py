"""Log directories of brokers, as far as the controller knows them: assignments, failures, cordons (KIP-858, KIP-1066).

A broker tells which of its directories a replica lies in. When it tells that one has failed, the replicas there are as
if the broker were gone: others lead. A cordoned directory keeps what it has and gets nothing new.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from penstock.errors import ErrorCode
from penstock.metadata import leadership
from penstock.metadata.brokers import change, checked
from penstock.metadata.image import BrokerRegistration
from penstock.metadata.indexes import partition_key
from penstock.metadata.partition_change import changed_partition
from penstock.metadata.result import MetadataMessage, Result

if TYPE_CHECKING:
    from penstock.metadata.controller import Controller

CORDONS_FROM_LEVEL = 30
"""metadata.version 4.3-IV0: the first at which cordoned directories are recorded."""

Replica = tuple[UUID, int]
"""Topic id and partition index."""


def assign_directories(
    controller: Controller, broker_id: int, broker_epoch: int, assignments: Mapping[Replica, UUID]
) -> Result[dict[Replica, ErrorCode]]:
    """Records which log directory a broker keeps its replicas in (AssignReplicasToDirs).

    `assignments` maps (topic id, partition) to the directory's id. A directory that is not online is recorded as well:
    a replica that has been lost with it leads no more. Raises RequestError STALE_BROKER_EPOCH.
    """
    broker = checked(controller, broker_id, broker_epoch)
    answers: dict[Replica, ErrorCode] = {}
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
        else:
            record = changed_partition(controller, topic, index, directory=(broker_id, directory))
            records += [] if record is None else [record]
            if directory not in broker.log_dirs:
                lost = leadership.updated(controller, [partition_key(topic_id, index)], leaving=broker_id)
                records += lost
        answers[topic_id, index] = code
    return Result(answers, records, atomic=False)


def report_directories(
    controller: Controller,
    broker: BrokerRegistration,
    offline: Sequence[UUID],
    cordoned: Sequence[UUID] | None,
) -> list[MetadataMessage]:
    """What follows from the directories that a heartbeat reports: `offline` ones, and those `cordoned` (None: not
    told). A broker that has lost all of them is going to stop; no record could say that it has none."""
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
