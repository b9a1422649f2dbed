"""AlterPartition: a leader proposes which replicas are in sync, and the controller decides (KIP-497, KIP-841, KIP-903).

The proposal is for the partition epoch that the leader knows; if that is outdated, it is refused, and the error says
what the leader should do: fetch the newest metadata, or look for another controller. A replica that is fenced, shutting
down, or has restarted since (its broker epoch differs) may not join.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from penstock.errors import ErrorCode
from penstock.metadata.brokers import checked
from penstock.metadata.image import NO_LEADER_CHANGE, PartitionRegistration
from penstock.metadata.partition_change import RECOVERED, RECOVERING, changed_partition
from penstock.metadata.result import MetadataMessage, Result

if TYPE_CHECKING:
    from penstock.metadata.controller import Controller

ANY_EPOCH = -1
"""Broker epoch of a replica that the leader does not know; it is not checked."""


@dataclass(frozen=True, slots=True)
class WantedIsr:
    """The in-sync replicas that a leader proposes for one partition. `isr` has broker ids, and the epochs that the
    leader knows them by.
    """

    topic_id: UUID
    index: int
    leader_epoch: int
    partition_epoch: int
    isr: Sequence[tuple[int, int]]
    leader_recovery_state: int = RECOVERED


@dataclass(frozen=True, slots=True)
class AlteredPartition:
    """The answer for one partition; the registration after the change, None with an error."""

    code: ErrorCode
    partition: PartitionRegistration | None = None


def alter_partitions(
    controller: Controller, broker_id: int, broker_epoch: int, wanted: Sequence[WantedIsr]
) -> Result[list[AlteredPartition]]:
    """Changes in-sync replicas as the leader `broker_id` wants; one answer for each, in their order.

    Raises RequestError STALE_BROKER_EPOCH.
    """
    checked(controller, broker_id, broker_epoch)
    answers: list[AlteredPartition] = []
    records: list[MetadataMessage] = []
    for each in wanted:
        answers.append(altered(controller, broker_id, each, records))
    return Result(answers, records, atomic=False)


def altered(
    controller: Controller, broker_id: int, wanted: WantedIsr, records: list[MetadataMessage]
) -> AlteredPartition:
    """Decides one partition, and adds its record."""
    topic = controller.image.topics_by_id.get(wanted.topic_id)
    if topic is None:
        return AlteredPartition(ErrorCode.UNKNOWN_TOPIC_ID)
    if not 0 <= wanted.index < len(topic.partitions):
        return AlteredPartition(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    partition = topic.partitions[wanted.index]
    code = problem_of(controller, broker_id, partition, wanted)
    if code is not ErrorCode.NONE:
        return AlteredPartition(code)
    record = changed_partition(
        controller,
        topic,
        wanted.index,
        isr=[replica for replica, _ in wanted.isr],
        recovery_state=wanted.leader_recovery_state,
        unclean=controller.unclean_election_allowed(topic.name),
    )
    if record is None:
        return AlteredPartition(ErrorCode.NONE, partition)
    records.append(record)
    if record.leader not in (NO_LEADER_CHANGE, broker_id):
        return AlteredPartition(ErrorCode.NEW_LEADER_ELECTED)
    return AlteredPartition(ErrorCode.NONE, partition.changed_by(record))


def problem_of(
    controller: Controller, broker_id: int, partition: PartitionRegistration, wanted: WantedIsr
) -> ErrorCode:
    """The error for the leader's proposal; NONE if it is accepted.

    A leader that knows a newer epoch has spoken to a newer controller than this one.
    """
    if wanted.leader_epoch > partition.leader_epoch or wanted.partition_epoch > partition.partition_epoch:
        return ErrorCode.NOT_CONTROLLER
    if wanted.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if wanted.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    isr = [replica for replica, _ in wanted.isr]
    if not is_valid(isr, partition) or not recovers_rightly(len(isr), partition, wanted.leader_recovery_state):
        return ErrorCode.INVALID_REQUEST
    if not all(may_join(controller, replica, epoch) for replica, epoch in wanted.isr):
        return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def is_valid(isr: Sequence[int], partition: PartitionRegistration) -> bool:
    """In-sync replicas are replicas, each once, the leader among them."""
    if len(isr) > len(partition.replicas):
        return False
    return partition.leader in isr and len(set(isr)) == len(isr) and set(isr) <= set(partition.replicas)


def recovers_rightly(isr_size: int, partition: PartitionRegistration, state: int) -> bool:
    """A leader that recovers from an unclean election is alone in sync; one that has recovered stays so."""
    if state not in (RECOVERED, RECOVERING):
        return False
    return state == RECOVERED or (isr_size == 1 and partition.leader_recovery_state == RECOVERING)


def may_join(controller: Controller, replica: int, epoch: int) -> bool:
    """Whether a replica may be in sync: its broker is active and has not restarted since the leader heard from it."""
    return controller.is_active(replica) and epoch in (ANY_EPOCH, controller.image.brokers[replica].epoch)
