"""Changes of what makes replicas eligible leader replicas (KIP-966).

It is `min.insync.replicas`: below it the high watermark stands still, so a replica that left the ISR below it has
everything committed. With another minimum, or without one that counts, this no longer holds if a leader goes on. If
nobody is in sync, nothing is committed: eligible replicas still have everything, and no others do. Kafka forgets them
even then, and such a partition has no leader until an unclean election.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from penstock.metadata.image import PartitionRegistration, TopicImage
from penstock.metadata.leadership import partitions_of
from penstock.metadata.result import MetadataMessage
from penstock.protocol.messages.metadata.clear_elr_record import ClearElrRecord
from penstock.protocol.messages.metadata.partition_change_record import PartitionChangeRecord

if TYPE_CHECKING:
    from penstock.metadata.controller import Controller

ALL_TOPICS = ""


def minimum_changed(controller: Controller, topics: Sequence[str]) -> list[MetadataMessage]:
    """Forgets the eligible replicas of topics, or of ALL_TOPICS, except where no replica is in sync.

    The records belong into one batch: in between, even those would be forgotten.
    """
    records: list[MetadataMessage] = [ClearElrRecord(topic_name=name) for name in topics]
    for topic, index, partition in nobody_in_sync(controller):
        if topic.name in topics or ALL_TOPICS in topics:
            kept = PartitionChangeRecord(topic_id=topic.id, partition_id=index)
            kept.eligible_leader_replicas = list(partition.elr)
            kept.last_known_elr = list(partition.last_known_elr)
            records.append(kept)
    return records


def switched_off(controller: Controller) -> list[MetadataMessage]:
    """Removes all eligible replicas: where nobody is in sync they become in-sync again, as without the feature the last
    ones would be. The records belong into one batch.
    """
    records: list[MetadataMessage] = [ClearElrRecord(topic_name=ALL_TOPICS)]
    for topic, index, partition in nobody_in_sync(controller):
        isr = list(partition.elr or partition.last_known_elr)
        records.append(PartitionChangeRecord(topic_id=topic.id, partition_id=index, isr=isr))
    return records


def nobody_in_sync(controller: Controller) -> Iterator[tuple[TopicImage, int, PartitionRegistration]]:
    """The partitions without in-sync replicas that have eligible replicas or a last known leader."""
    for topic, index in partitions_of(controller, list(controller.indexes.leaderless)):
        partition = topic.partitions[index]
        if not partition.isr and (partition.elr or partition.last_known_elr):
            yield topic, index, partition
