"""VoteRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class VoteRequest(Message, key=52, versions=(0, 2), flexible_from=0):
    """VoteRequest, versions 0 to 2."""

    cluster_id: str | None = None
    voter_id: int = -1
    topics: list[TopicData] = ABSENT


class TopicData(Struct):
    topic_name: str = ''
    partitions: list[PartitionData] = ABSENT


class PartitionData(Struct):
    partition_index: int = 0
    replica_epoch: int = 0
    replica_id: int = 0
    replica_directory_id: UUID = ZERO_UUID
    voter_directory_id: UUID = ZERO_UUID
    last_offset_epoch: int = 0
    last_offset: int = 0
    pre_vote: bool = False
