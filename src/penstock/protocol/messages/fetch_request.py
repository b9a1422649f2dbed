"""FetchRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class FetchRequest(Message, key=1, versions=(4, 18), flexible_from=12):
    """FetchRequest, versions 4 to 18."""

    cluster_id: str | None = None
    replica_id: int = -1
    replica_state: ReplicaState = ABSENT
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = 2147483647
    isolation_level: int = 0
    session_id: int = 0
    session_epoch: int = -1
    topics: list[FetchTopic] = ABSENT
    forgotten_topics_data: list[ForgottenTopic] = ABSENT
    rack_id: str = ''


class ReplicaState(Struct):
    replica_id: int = -1
    replica_epoch: int = -1


class FetchTopic(Struct):
    topic: str = ''
    topic_id: UUID = ZERO_UUID
    partitions: list[FetchPartition] = ABSENT


class FetchPartition(Struct):
    partition: int = 0
    current_leader_epoch: int = -1
    fetch_offset: int = 0
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    partition_max_bytes: int = 0
    replica_directory_id: UUID = ZERO_UUID
    high_watermark: int = 9223372036854775807


class ForgottenTopic(Struct):
    topic: str = ''
    topic_id: UUID = ZERO_UUID
    partitions: list[int] = ABSENT
