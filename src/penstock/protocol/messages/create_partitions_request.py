"""CreatePartitionsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class CreatePartitionsRequest(Message):
    """CreatePartitionsRequest, versions 0 to 3."""

    __slots__ = ("topics", "timeout_ms", "validate_only",)

    NAME = "CreatePartitionsRequest"
    KEY = 37
    MIN_VERSION = 0
    MAX_VERSION = 3
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        topics: list[CreatePartitionsTopic] = ABSENT,
        timeout_ms: int = 0,
        validate_only: bool = False,
    ) -> None:
        self.topics = [] if topics is ABSENT else topics
        self.timeout_ms = timeout_ms
        self.validate_only = validate_only


class CreatePartitionsTopic(Struct):
    __slots__ = ("name", "count", "assignments",)

    def __init__(
        self,
        *,
        name: str = '',
        count: int = 0,
        assignments: list[CreatePartitionsAssignment] | None = ABSENT,
    ) -> None:
        self.name = name
        self.count = count
        self.assignments = [] if assignments is ABSENT else assignments


class CreatePartitionsAssignment(Struct):
    __slots__ = ("broker_ids",)

    def __init__(
        self,
        *,
        broker_ids: list[int] = ABSENT,
    ) -> None:
        self.broker_ids = [] if broker_ids is ABSENT else broker_ids
