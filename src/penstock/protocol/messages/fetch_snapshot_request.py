"""FetchSnapshotRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class FetchSnapshotRequest(Message, key=59, versions=(0, 1), flexible_from=0):
    """FetchSnapshotRequest, versions 0 to 1."""

    cluster_id: str | None = None
    replica_id: int = -1
    max_bytes: int = 2147483647
    topics: list[TopicSnapshot] = ABSENT


class TopicSnapshot(Struct):
    name: str = ''
    partitions: list[PartitionSnapshot] = ABSENT


class PartitionSnapshot(Struct):
    partition: int = 0
    current_leader_epoch: int = 0
    snapshot_id: SnapshotId = ABSENT
    position: int = 0
    replica_directory_id: UUID = ZERO_UUID


class SnapshotId(Struct):
    end_offset: int = 0
    epoch: int = 0
