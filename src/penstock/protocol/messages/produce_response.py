"""ProduceResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class ProduceResponse(Message):
    """ProduceResponse, versions 3 to 13."""

    __slots__ = ("responses", "throttle_time_ms", "node_endpoints",)

    NAME = "ProduceResponse"
    KEY = 0
    MIN_VERSION = 3
    MAX_VERSION = 13
    FLEXIBLE_FROM = 9

    def __init__(
        self,
        *,
        responses: list[TopicProduceResponse] = ABSENT,
        throttle_time_ms: int = 0,
        node_endpoints: list[NodeEndpoint] = ABSENT,
    ) -> None:
        self.responses = [] if responses is ABSENT else responses
        self.throttle_time_ms = throttle_time_ms
        self.node_endpoints = [] if node_endpoints is ABSENT else node_endpoints


class TopicProduceResponse(Struct):
    __slots__ = ("name", "topic_id", "partition_responses",)

    def __init__(
        self,
        *,
        name: str = '',
        topic_id: UUID = ZERO_UUID,
        partition_responses: list[PartitionProduceResponse] = ABSENT,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_responses = [] if partition_responses is ABSENT else partition_responses


class PartitionProduceResponse(Struct):
    __slots__ = ("index", "error_code", "base_offset", "log_append_time_ms", "log_start_offset", "record_errors", "error_message", "current_leader",)

    def __init__(
        self,
        *,
        index: int = 0,
        error_code: int = 0,
        base_offset: int = 0,
        log_append_time_ms: int = -1,
        log_start_offset: int = -1,
        record_errors: list[BatchIndexAndErrorMessage] = ABSENT,
        error_message: str | None = None,
        current_leader: LeaderIdAndEpoch = ABSENT,
    ) -> None:
        self.index = index
        self.error_code = error_code
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.record_errors = [] if record_errors is ABSENT else record_errors
        self.error_message = error_message
        self.current_leader = LeaderIdAndEpoch() if current_leader is ABSENT else current_leader


class BatchIndexAndErrorMessage(Struct):
    __slots__ = ("batch_index", "batch_index_error_message",)

    def __init__(
        self,
        *,
        batch_index: int = 0,
        batch_index_error_message: str | None = None,
    ) -> None:
        self.batch_index = batch_index
        self.batch_index_error_message = batch_index_error_message


class LeaderIdAndEpoch(Struct):
    __slots__ = ("leader_id", "leader_epoch",)

    def __init__(
        self,
        *,
        leader_id: int = -1,
        leader_epoch: int = -1,
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class NodeEndpoint(Struct):
    __slots__ = ("node_id", "host", "port", "rack",)

    def __init__(
        self,
        *,
        node_id: int = 0,
        host: str = '',
        port: int = 0,
        rack: str | None = None,
    ) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack
