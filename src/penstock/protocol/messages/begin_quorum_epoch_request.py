"""BeginQuorumEpochRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class BeginQuorumEpochRequest(Message, key=53, versions=(0, 1), flexible_from=1):
    """BeginQuorumEpochRequest, versions 0 to 1."""

    cluster_id: str | None = None
    voter_id: int = -1
    topics: list[TopicData] = ABSENT
    leader_endpoints: list[LeaderEndpoint] = ABSENT


class TopicData(Struct):
    topic_name: str = ''
    partitions: list[PartitionData] = ABSENT


class PartitionData(Struct):
    partition_index: int = 0
    voter_directory_id: UUID = ZERO_UUID
    leader_id: int = 0
    leader_epoch: int = 0


class LeaderEndpoint(Struct):
    name: str = ''
    host: str = ''
    port: int = 0
