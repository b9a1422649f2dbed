"""WriteTxnMarkersResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class WriteTxnMarkersResponse(Message):
    """WriteTxnMarkersResponse, versions 1 to 2."""

    __slots__ = ("markers",)

    NAME = "WriteTxnMarkersResponse"
    KEY = 27
    MIN_VERSION = 1
    MAX_VERSION = 2
    FLEXIBLE_FROM = 1

    def __init__(
        self,
        *,
        markers: list[WritableTxnMarkerResult] = ABSENT,
    ) -> None:
        self.markers = [] if markers is ABSENT else markers


class WritableTxnMarkerResult(Struct):
    __slots__ = ("producer_id", "topics",)

    def __init__(
        self,
        *,
        producer_id: int = 0,
        topics: list[WritableTxnMarkerTopicResult] = ABSENT,
    ) -> None:
        self.producer_id = producer_id
        self.topics = [] if topics is ABSENT else topics


class WritableTxnMarkerTopicResult(Struct):
    __slots__ = ("name", "partitions",)

    def __init__(
        self,
        *,
        name: str = '',
        partitions: list[WritableTxnMarkerPartitionResult] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is ABSENT else partitions


class WritableTxnMarkerPartitionResult(Struct):
    __slots__ = ("partition_index", "error_code",)

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
