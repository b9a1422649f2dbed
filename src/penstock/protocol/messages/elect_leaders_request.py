"""ElectLeadersRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class ElectLeadersRequest(Message):
    """ElectLeadersRequest, versions 0 to 2."""

    __slots__ = ("election_type", "topic_partitions", "timeout_ms",)

    NAME = "ElectLeadersRequest"
    KEY = 43
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        election_type: int = 0,
        topic_partitions: list[TopicPartitions] | None = ABSENT,
        timeout_ms: int = 60000,
    ) -> None:
        self.election_type = election_type
        self.topic_partitions = [] if topic_partitions is ABSENT else topic_partitions
        self.timeout_ms = timeout_ms


class TopicPartitions(Struct):
    __slots__ = ("topic", "partitions",)

    def __init__(
        self,
        *,
        topic: str = '',
        partitions: list[int] = ABSENT,
    ) -> None:
        self.topic = topic
        self.partitions = [] if partitions is ABSENT else partitions
