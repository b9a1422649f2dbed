"""FetchSnapshotResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Records, Struct


class FetchSnapshotResponse(Message, key=59, versions=(0, 1), flexible_from=0):
    """FetchSnapshotResponse, versions 0 to 1."""

    throttle_time_ms: int = 0
    error_code: int = 0
    topics: list[TopicSnapshot] = ABSENT
    node_endpoints: list[NodeEndpoint] = ABSENT


class TopicSnapshot(Struct):
    name: str = ''
    partitions: list[PartitionSnapshot] = ABSENT


class PartitionSnapshot(Struct):
    index: int = 0
    error_code: int = 0
    snapshot_id: SnapshotId = ABSENT
    current_leader: LeaderIdAndEpoch = ABSENT
    size: int = 0
    position: int = 0
    unaligned_records: Records = b""


class SnapshotId(Struct):
    end_offset: int = 0
    epoch: int = 0


class LeaderIdAndEpoch(Struct):
    leader_id: int = 0
    leader_epoch: int = 0


class NodeEndpoint(Struct):
    node_id: int = 0
    host: str = ''
    port: int = 0
