"""StreamsGroupHeartbeatResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class StreamsGroupHeartbeatResponse(Message, key=88, versions=(0, 0), flexible_from=0):
    """StreamsGroupHeartbeatResponse, versions 0 to 0."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    member_id: str = ''
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    acceptable_recovery_lag: int = 0
    task_offset_interval_ms: int = 0
    status: list[Status] | None = ABSENT
    active_tasks: list[TaskIds] | None = None
    standby_tasks: list[TaskIds] | None = None
    warmup_tasks: list[TaskIds] | None = None
    endpoint_information_epoch: int = 0
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = None


class Status(Struct):
    status_code: int = 0
    status_detail: str = ''


class TaskIds(Struct):
    subtopology_id: str = ''
    partitions: list[int] = ABSENT


class EndpointToPartitions(Struct):
    user_endpoint: Endpoint = ABSENT
    active_partitions: list[TopicPartition] = ABSENT
    standby_partitions: list[TopicPartition] = ABSENT


class Endpoint(Struct):
    host: str = ''
    port: int = 0


class TopicPartition(Struct):
    topic: str = ''
    partitions: list[int] = ABSENT
