"""AlterPartitionRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class AlterPartitionRequest(Message, key=56, versions=(2, 3), flexible_from=0):
    """AlterPartitionRequest, versions 2 to 3."""

    broker_id: int = 0
    broker_epoch: int = -1
    topics: list[TopicData] = ABSENT


class TopicData(Struct):
    topic_id: UUID = ZERO_UUID
    partitions: list[PartitionData] = ABSENT


class PartitionData(Struct):
    partition_index: int = 0
    leader_epoch: int = 0
    new_isr: list[int] = ABSENT
    new_isr_with_epochs: list[BrokerState] = ABSENT
    leader_recovery_state: int = 0
    partition_epoch: int = 0


class BrokerState(Struct):
    broker_id: int = 0
    broker_epoch: int = -1
