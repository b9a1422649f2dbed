"""AlterPartition (key 56): a leader proposes which replicas are in sync (KIP-497). On controller listeners only.

Versions 2-3, flexible. From version 3 on the replicas come with their broker epochs, so that one which has restarted
since is not counted as in sync (KIP-903). The error says what the leader should do: after NOT_CONTROLLER and
STALE_BROKER_EPOCH, begin anew; after FENCED_LEADER_EPOCH, NEW_LEADER_ELECTED and INVALID_UPDATE_VERSION, wait for newer
metadata; after INELIGIBLE_REPLICA, leave that replica out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from penstock.errors import ErrorCode
from penstock.metadata.alter_partition import ANY_EPOCH, AlteredPartition, WantedIsr, alter_partitions
from penstock.node.decisions import by_topic, decided, parts_of
from penstock.node.request import Handler, Outcome, Request
from penstock.node.steps import Stepped, lazily
from penstock.protocol.api import ApiKey
from penstock.protocol.messages import alter_partition_request as requested
from penstock.protocol.messages.alter_partition_request import AlterPartitionRequest
from penstock.protocol.messages.alter_partition_response import AlterPartitionResponse, PartitionData, TopicData

if TYPE_CHECKING:
    from penstock.node.broker import Broker

EPOCHS_FROM = 3


def handle(node: Broker, request: Request[AlterPartitionRequest], now_ms: int) -> Stepped[Outcome]:
    body = request.body
    if not node.controller.active:
        return AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER)
    controller = node.controller.state
    wanted = (
        wanted_isr(topic.topic_id, partition, request.version)
        for topic in body.topics
        for partition in topic.partitions
    )
    plan = yield from decided(
        node,
        request,
        parts_of(wanted),
        lambda part: alter_partitions(controller, body.broker_id, body.broker_epoch, part),
    )
    answers = yield from by_topic(body.topics, plan.answers)
    return plan.outcome(AlterPartitionResponse(topics=lazily(lambda each: topic_data(*each), answers)))


def topic_data(topic: requested.TopicData, answers: list[AlteredPartition]) -> TopicData:
    each = list(zip(topic.partitions, answers, strict=True))
    return TopicData(
        topic_id=topic.topic_id, partitions=lazily(lambda pair: answer(pair[0].partition_index, pair[1]), each)
    )


def wanted_isr(topic_id: UUID, partition: requested.PartitionData, version: int) -> WantedIsr:
    """What the leader of one partition wants."""
    if version >= EPOCHS_FROM:
        isr = [(each.broker_id, each.broker_epoch) for each in partition.new_isr_with_epochs]
    else:
        isr = [(broker_id, ANY_EPOCH) for broker_id in partition.new_isr]
    return WantedIsr(
        topic_id=topic_id,
        index=partition.partition_index,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        isr=isr,
        leader_recovery_state=partition.leader_recovery_state,
    )


def answer(index: int, altered: AlteredPartition) -> PartitionData:
    """The state after the change, or the error."""
    partition = altered.partition
    if partition is None:
        return PartitionData(partition_index=index, error_code=altered.code)
    return PartitionData(
        partition_index=index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        leader_recovery_state=partition.leader_recovery_state,
        partition_epoch=partition.partition_epoch,
    )


HANDLERS = (Handler(ApiKey.ALTER_PARTITION, handle),)
