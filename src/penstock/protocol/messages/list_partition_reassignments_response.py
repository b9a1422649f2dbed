"""ListPartitionReassignmentsResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class ListPartitionReassignmentsResponse(Message):
    """ListPartitionReassignmentsResponse, versions 0 to 0."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message", "topics",)

    NAME = "ListPartitionReassignmentsResponse"
    KEY = 46
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = '',
        topics: list[OngoingTopicReassignment] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.topics = [] if topics is ABSENT else topics


class OngoingTopicReassignment(Struct):
    __slots__ = ("name", "partitions",)

    def __init__(
        self,
        *,
        name: str = '',
        partitions: list[OngoingPartitionReassignment] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is ABSENT else partitions


class OngoingPartitionReassignment(Struct):
    __slots__ = ("partition_index", "replicas", "adding_replicas", "removing_replicas",)

    def __init__(
        self,
        *,
        partition_index: int = 0,
        replicas: list[int] = ABSENT,
        adding_replicas: list[int] = ABSENT,
        removing_replicas: list[int] = ABSENT,
    ) -> None:
        self.partition_index = partition_index
        self.replicas = [] if replicas is ABSENT else replicas
        self.adding_replicas = [] if adding_replicas is ABSENT else adding_replicas
        self.removing_replicas = [] if removing_replicas is ABSENT else removing_replicas
