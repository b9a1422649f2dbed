"""DeleteShareGroupStateResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class DeleteShareGroupStateResponse(Message):
    """DeleteShareGroupStateResponse, versions 0 to 0."""

    __slots__ = ("results",)

    NAME = "DeleteShareGroupStateResponse"
    KEY = 86
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        results: list[DeleteStateResult] = ABSENT,
    ) -> None:
        self.results = [] if results is ABSENT else results


class DeleteStateResult(Struct):
    __slots__ = ("topic_id", "partitions",)

    def __init__(
        self,
        *,
        topic_id: UUID = ZERO_UUID,
        partitions: list[PartitionResult] = ABSENT,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is ABSENT else partitions


class PartitionResult(Struct):
    __slots__ = ("partition", "error_code", "error_message",)

    def __init__(
        self,
        *,
        partition: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.partition = partition
        self.error_code = error_code
        self.error_message = error_message
