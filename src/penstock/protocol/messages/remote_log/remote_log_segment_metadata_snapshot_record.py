"""RemoteLogSegmentMetadataSnapshotRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class RemoteLogSegmentMetadataSnapshotRecord(Message, key=3, versions=(0, 0), flexible_from=0):
    """RemoteLogSegmentMetadataSnapshotRecord, versions 0 to 0."""

    segment_id: UUID = ZERO_UUID
    start_offset: int = 0
    end_offset: int = 0
    broker_id: int = 0
    max_timestamp_ms: int = 0
    event_timestamp_ms: int = 0
    segment_leader_epochs: list[SegmentLeaderEpochEntry] = ABSENT
    segment_size_in_bytes: int = 0
    custom_metadata: bytes | None = None
    remote_log_segment_state: int = 0
    txn_index_empty: bool = False


class SegmentLeaderEpochEntry(Struct):
    leader_epoch: int = 0
    offset: int = 0
