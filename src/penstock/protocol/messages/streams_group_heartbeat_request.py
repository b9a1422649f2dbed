"""StreamsGroupHeartbeatRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class StreamsGroupHeartbeatRequest(Message, key=88, versions=(0, 0), flexible_from=0):
    """StreamsGroupHeartbeatRequest, versions 0 to 0."""

    group_id: str = ''
    member_id: str = ''
    member_epoch: int = 0
    endpoint_information_epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topology: Topology | None = None
    active_tasks: list[TaskIds] | None = None
    standby_tasks: list[TaskIds] | None = None
    warmup_tasks: list[TaskIds] | None = None
    process_id: str | None = None
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue] | None = None
    task_offsets: list[TaskOffset] | None = None
    task_end_offsets: list[TaskOffset] | None = None
    shutdown_application: bool = False


class Topology(Struct):
    epoch: int = 0
    subtopologies: list[Subtopology] = ABSENT


class Subtopology(Struct):
    subtopology_id: str = ''
    source_topics: list[str] = ABSENT
    source_topic_regex: list[str] = ABSENT
    state_changelog_topics: list[TopicInfo] = ABSENT
    repartition_sink_topics: list[str] = ABSENT
    repartition_source_topics: list[TopicInfo] = ABSENT
    copartition_groups: list[CopartitionGroup] = ABSENT


class TopicInfo(Struct):
    name: str = ''
    partitions: int = 0
    replication_factor: int = 0
    topic_configs: list[KeyValue] = ABSENT


class KeyValue(Struct):
    key: str = ''
    value: str = ''


class CopartitionGroup(Struct):
    source_topics: list[int] = ABSENT
    source_topic_regex: list[int] = ABSENT
    repartition_source_topics: list[int] = ABSENT


class TaskIds(Struct):
    subtopology_id: str = ''
    partitions: list[int] = ABSENT


class Endpoint(Struct):
    host: str = ''
    port: int = 0


class TaskOffset(Struct):
    subtopology_id: str = ''
    partition: int = 0
    offset: int = 0
