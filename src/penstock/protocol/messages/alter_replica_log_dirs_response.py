"""AlterReplicaLogDirsResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class AlterReplicaLogDirsResponse(Message, key=34, versions=(1, 2), flexible_from=2):
    """AlterReplicaLogDirsResponse, versions 1 to 2."""

    throttle_time_ms: int = 0
    results: list[AlterReplicaLogDirTopicResult] = ABSENT


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: str = ''
    partitions: list[AlterReplicaLogDirPartitionResult] = ABSENT


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: int = 0
    error_code: int = 0
