"""ProduceRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Records, Struct, ZERO_UUID


class ProduceRequest(Message):
    """ProduceRequest, versions 3 to 13."""

    __slots__ = ("transactional_id", "acks", "timeout_ms", "topic_data",)

    NAME = "ProduceRequest"
    KEY = 0
    MIN_VERSION = 3
    MAX_VERSION = 13
    FLEXIBLE_FROM = 9

    def __init__(
        self,
        *,
        transactional_id: str | None = None,
        acks: int = 0,
        timeout_ms: int = 0,
        topic_data: list[TopicProduceData] = ABSENT,
    ) -> None:
        self.transactional_id = transactional_id
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topic_data = [] if topic_data is ABSENT else topic_data


class TopicProduceData(Struct):
    __slots__ = ("name", "topic_id", "partition_data",)

    def __init__(
        self,
        *,
        name: str = '',
        topic_id: UUID = ZERO_UUID,
        partition_data: list[PartitionProduceData] = ABSENT,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_data = [] if partition_data is ABSENT else partition_data


class PartitionProduceData(Struct):
    __slots__ = ("index", "records",)

    def __init__(
        self,
        *,
        index: int = 0,
        records: Records | None = b"",
    ) -> None:
        self.index = index
        self.records = records
