"""ListPartitionReassignmentsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class ListPartitionReassignmentsRequest(Message):
    """ListPartitionReassignmentsRequest, versions 0 to 0."""

    __slots__ = ("timeout_ms", "topics",)

    NAME = "ListPartitionReassignmentsRequest"
    KEY = 46
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        timeout_ms: int = 60000,
        topics: list[ListPartitionReassignmentsTopics] | None = None,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.topics = topics


class ListPartitionReassignmentsTopics(Struct):
    __slots__ = ("name", "partition_indexes",)

    def __init__(
        self,
        *,
        name: str = '',
        partition_indexes: list[int] = ABSENT,
    ) -> None:
        self.name = name
        self.partition_indexes = [] if partition_indexes is ABSENT else partition_indexes
