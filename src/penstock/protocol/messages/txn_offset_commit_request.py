"""TxnOffsetCommitRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class TxnOffsetCommitRequest(Message, key=28, versions=(0, 5), flexible_from=3):
    """TxnOffsetCommitRequest, versions 0 to 5."""

    transactional_id: str = ''
    group_id: str = ''
    producer_id: int = 0
    producer_epoch: int = 0
    generation_id: int = -1
    member_id: str = ''
    group_instance_id: str | None = None
    topics: list[TxnOffsetCommitRequestTopic] = ABSENT


class TxnOffsetCommitRequestTopic(Struct):
    name: str = ''
    partitions: list[TxnOffsetCommitRequestPartition] = ABSENT


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    committed_metadata: str | None = ''
