"""ElectLeadersResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class ElectLeadersResponse(Message):
    """ElectLeadersResponse, versions 0 to 2."""

    __slots__ = ("throttle_time_ms", "error_code", "replica_election_results",)

    NAME = "ElectLeadersResponse"
    KEY = 43
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        replica_election_results: list[ReplicaElectionResult] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.replica_election_results = [] if replica_election_results is ABSENT else replica_election_results


class ReplicaElectionResult(Struct):
    __slots__ = ("topic", "partition_result",)

    def __init__(
        self,
        *,
        topic: str = '',
        partition_result: list[PartitionResult] = ABSENT,
    ) -> None:
        self.topic = topic
        self.partition_result = [] if partition_result is ABSENT else partition_result


class PartitionResult(Struct):
    __slots__ = ("partition_id", "error_code", "error_message",)

    def __init__(
        self,
        *,
        partition_id: int = 0,
        error_code: int = 0,
        error_message: str | None = '',
    ) -> None:
        self.partition_id = partition_id
        self.error_code = error_code
        self.error_message = error_message
