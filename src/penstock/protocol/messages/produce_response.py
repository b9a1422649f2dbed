"""ProduceResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class ProduceResponse(Message, key=0, versions=(3, 13), flexible_from=9):
    """ProduceResponse, versions 3 to 13."""

    responses: list[TopicProduceResponse] = ABSENT
    throttle_time_ms: int = 0
    node_endpoints: list[NodeEndpoint] = ABSENT


class TopicProduceResponse(Struct):
    name: str = ''
    topic_id: UUID = ZERO_UUID
    partition_responses: list[PartitionProduceResponse] = ABSENT


class PartitionProduceResponse(Struct):
    index: int = 0
    error_code: int = 0
    base_offset: int = 0
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: list[BatchIndexAndErrorMessage] = ABSENT
    error_message: str | None = None
    current_leader: LeaderIdAndEpoch = ABSENT


class BatchIndexAndErrorMessage(Struct):
    batch_index: int = 0
    batch_index_error_message: str | None = None


class LeaderIdAndEpoch(Struct):
    leader_id: int = -1
    leader_epoch: int = -1


class NodeEndpoint(Struct):
    node_id: int = 0
    host: str = ''
    port: int = 0
    rack: str | None = None
