"""EndQuorumEpochRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class EndQuorumEpochRequest(Message, key=54, versions=(0, 1), flexible_from=1):
    """EndQuorumEpochRequest, versions 0 to 1."""

    cluster_id: str | None = None
    topics: list[TopicData] = ABSENT
    leader_endpoints: list[LeaderEndpoint] = ABSENT


class TopicData(Struct):
    topic_name: str = ''
    partitions: list[PartitionData] = ABSENT


class PartitionData(Struct):
    partition_index: int = 0
    leader_id: int = 0
    leader_epoch: int = 0
    preferred_successors: list[int] = ABSENT
    preferred_candidates: list[ReplicaInfo] = ABSENT


class ReplicaInfo(Struct):
    candidate_id: int = 0
    candidate_directory_id: UUID = ZERO_UUID


class LeaderEndpoint(Struct):
    name: str = ''
    host: str = ''
    port: int = 0
