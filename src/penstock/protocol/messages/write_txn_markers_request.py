"""WriteTxnMarkersRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class WriteTxnMarkersRequest(Message, key=27, versions=(1, 2), flexible_from=1):
    """WriteTxnMarkersRequest, versions 1 to 2."""

    markers: list[WritableTxnMarker] = ABSENT


class WritableTxnMarker(Struct):
    producer_id: int = 0
    producer_epoch: int = 0
    transaction_result: bool = False
    topics: list[WritableTxnMarkerTopic] = ABSENT
    coordinator_epoch: int = 0
    transaction_version: int = 0


class WritableTxnMarkerTopic(Struct):
    name: str = ''
    partition_indexes: list[int] = ABSENT
