"""DeleteRecordsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class DeleteRecordsRequest(Message, key=21, versions=(0, 2), flexible_from=2):
    """DeleteRecordsRequest, versions 0 to 2."""

    topics: list[DeleteRecordsTopic] = ABSENT
    timeout_ms: int = 0


class DeleteRecordsTopic(Struct):
    name: str = ''
    partitions: list[DeleteRecordsPartition] = ABSENT


class DeleteRecordsPartition(Struct):
    partition_index: int = 0
    offset: int = 0
