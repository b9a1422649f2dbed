"""AssignReplicasToDirsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class AssignReplicasToDirsRequest(Message, key=73, versions=(0, 0), flexible_from=0):
    """AssignReplicasToDirsRequest, versions 0 to 0."""

    broker_id: int = 0
    broker_epoch: int = -1
    directories: list[DirectoryData] = ABSENT


class DirectoryData(Struct):
    id: UUID = ZERO_UUID
    topics: list[TopicData] = ABSENT


class TopicData(Struct):
    topic_id: UUID = ZERO_UUID
    partitions: list[PartitionData] = ABSENT


class PartitionData(Struct):
    partition_index: int = 0
