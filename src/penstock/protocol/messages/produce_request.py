"""ProduceRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Records, Struct, ZERO_UUID


class ProduceRequest(Message, key=0, versions=(3, 13), flexible_from=9):
    """ProduceRequest, versions 3 to 13."""

    transactional_id: str | None = None
    acks: int = 0
    timeout_ms: int = 0
    topic_data: list[TopicProduceData] = ABSENT


class TopicProduceData(Struct):
    name: str = ''
    topic_id: UUID = ZERO_UUID
    partition_data: list[PartitionProduceData] = ABSENT


class PartitionProduceData(Struct):
    index: int = 0
    records: Records | None = b""
