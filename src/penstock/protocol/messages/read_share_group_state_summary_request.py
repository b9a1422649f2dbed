"""ReadShareGroupStateSummaryRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class ReadShareGroupStateSummaryRequest(Message, key=87, versions=(0, 1), flexible_from=0):
    """ReadShareGroupStateSummaryRequest, versions 0 to 1."""

    group_id: str = ''
    topics: list[ReadStateSummaryData] = ABSENT


class ReadStateSummaryData(Struct):
    topic_id: UUID = ZERO_UUID
    partitions: list[PartitionData] = ABSENT


class PartitionData(Struct):
    partition: int = 0
    leader_epoch: int = 0
