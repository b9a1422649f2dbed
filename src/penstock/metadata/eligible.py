"""What becomes of eligible leader replicas when the ground that they stand on changes (KIP-966).

They stand on `min.insync.replicas`: below it the high watermark stands still, so whoever left the in-sync replicas
below it has all that was committed. With another minimum, or none that counts, this is over where a leader goes on.
Where nobody is in sync nothing is committed either: there they have everything still, and nobody else has. Kafka
forgets them there too, and such a partition has no leader until somebody elects one uncleanly.
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

    The records belong into one batch: between them those are forgotten too.
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
    """Has no eligible replicas any more, anywhere: where nobody is in sync they are in sync again, as those are without
    the feature that were the last. The records belong into one batch."""
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
