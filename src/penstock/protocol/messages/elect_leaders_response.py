"""ElectLeadersResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class ElectLeadersResponse(Message, key=43, versions=(0, 2), flexible_from=2):
    """ElectLeadersResponse, versions 0 to 2."""

    throttle_time_ms: int = 0
    error_code: int = 0
    replica_election_results: list[ReplicaElectionResult] = ABSENT


class ReplicaElectionResult(Struct):
    topic: str = ''
    partition_result: list[PartitionResult] = ABSENT


class PartitionResult(Struct):
    partition_id: int = 0
    error_code: int = 0
    error_message: str | None = ''
