"""StreamsGroupDescribeResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class StreamsGroupDescribeResponse(Message, key=89, versions=(0, 0), flexible_from=0):
    """StreamsGroupDescribeResponse, versions 0 to 0."""

    throttle_time_ms: int = 0
    groups: list[DescribedGroup] = ABSENT


class DescribedGroup(Struct):
    error_code: int = 0
    error_message: str | None = None
    group_id: str = ''
    group_state: str = ''
    group_epoch: int = 0
    assignment_epoch: int = 0
    topology: Topology | None = None
    members: list[Member] = ABSENT
    authorized_operations: int = -2147483648


class Topology(Struct):
    epoch: int = 0
    subtopologies: list[Subtopology] | None = None


class Subtopology(Struct):
    subtopology_id: str = ''
    source_topics: list[str] = ABSENT
    repartition_sink_topics: list[str] = ABSENT
    state_changelog_topics: list[TopicInfo] = ABSENT
    repartition_source_topics: list[TopicInfo] = ABSENT


class TopicInfo(Struct):
    name: str = ''
    partitions: int = 0
    replication_factor: int = 0
    topic_configs: list[KeyValue] = ABSENT


class KeyValue(Struct):
    key: str = ''
    value: str = ''


class Member(Struct):
    member_id: str = ''
    member_epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ''
    client_host: str = ''
    topology_epoch: int = 0
    process_id: str = ''
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue] = ABSENT
    task_offsets: list[TaskOffset] = ABSENT
    task_end_offsets: list[TaskOffset] = ABSENT
    assignment: Assignment = ABSENT
    target_assignment: Assignment = ABSENT
    is_classic: bool = False


class Endpoint(Struct):
    host: str = ''
    port: int = 0


class TaskOffset(Struct):
    subtopology_id: str = ''
    partition: int = 0
    offset: int = 0


class Assignment(Struct):
    active_tasks: list[TaskIds] = ABSENT
    standby_tasks: list[TaskIds] = ABSENT
    warmup_tasks: list[TaskIds] = ABSENT


class TaskIds(Struct):
    subtopology_id: str = ''
    partitions: list[int] = ABSENT
