"""CreateTopicsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class CreateTopicsRequest(Message):
    """CreateTopicsRequest, versions 2 to 7."""

    __slots__ = ("topics", "timeout_ms", "validate_only",)

    NAME = "CreateTopicsRequest"
    KEY = 19
    MIN_VERSION = 2
    MAX_VERSION = 7
    FLEXIBLE_FROM = 5

    def __init__(
        self,
        *,
        topics: list[CreatableTopic] = ABSENT,
        timeout_ms: int = 60000,
        validate_only: bool = False,
    ) -> None:
        self.topics = [] if topics is ABSENT else topics
        self.timeout_ms = timeout_ms
        self.validate_only = validate_only


class CreatableTopic(Struct):
    __slots__ = ("name", "num_partitions", "replication_factor", "assignments", "configs",)

    def __init__(
        self,
        *,
        name: str = '',
        num_partitions: int = 0,
        replication_factor: int = 0,
        assignments: list[CreatableReplicaAssignment] = ABSENT,
        configs: list[CreatableTopicConfig] = ABSENT,
    ) -> None:
        self.name = name
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.assignments = [] if assignments is ABSENT else assignments
        self.configs = [] if configs is ABSENT else configs


class CreatableReplicaAssignment(Struct):
    __slots__ = ("partition_index", "broker_ids",)

    def __init__(
        self,
        *,
        partition_index: int = 0,
        broker_ids: list[int] = ABSENT,
    ) -> None:
        self.partition_index = partition_index
        self.broker_ids = [] if broker_ids is ABSENT else broker_ids


class CreatableTopicConfig(Struct):
    __slots__ = ("name", "value",)

    def __init__(
        self,
        *,
        name: str = '',
        value: str | None = '',
    ) -> None:
        self.name = name
        self.value = value
