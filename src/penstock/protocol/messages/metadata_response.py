"""MetadataResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class MetadataResponse(Message, key=3, versions=(0, 13), flexible_from=9):
    """MetadataResponse, versions 0 to 13."""

    throttle_time_ms: int = 0
    brokers: list[MetadataResponseBroker] = ABSENT
    cluster_id: str | None = None
    controller_id: int = -1
    topics: list[MetadataResponseTopic] = ABSENT
    cluster_authorized_operations: int = -2147483648
    error_code: int = 0


class MetadataResponseBroker(Struct):
    node_id: int = 0
    host: str = ''
    port: int = 0
    rack: str | None = None


class MetadataResponseTopic(Struct):
    error_code: int = 0
    name: str | None = ''
    topic_id: UUID = ZERO_UUID
    is_internal: bool = False
    partitions: list[MetadataResponsePartition] = ABSENT
    topic_authorized_operations: int = -2147483648


class MetadataResponsePartition(Struct):
    error_code: int = 0
    partition_index: int = 0
    leader_id: int = 0
    leader_epoch: int = -1
    replica_nodes: list[int] = ABSENT
    isr_nodes: list[int] = ABSENT
    offline_replicas: list[int] = ABSENT
