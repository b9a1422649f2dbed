"""WriteTxnMarkersResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class WriteTxnMarkersResponse(Message, key=27, versions=(1, 2), flexible_from=1):
    """WriteTxnMarkersResponse, versions 1 to 2."""

    markers: list[WritableTxnMarkerResult] = ABSENT


class WritableTxnMarkerResult(Struct):
    producer_id: int = 0
    topics: list[WritableTxnMarkerTopicResult] = ABSENT


class WritableTxnMarkerTopicResult(Struct):
    name: str = ''
    partitions: list[WritableTxnMarkerPartitionResult] = ABSENT


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: int = 0
    error_code: int = 0
