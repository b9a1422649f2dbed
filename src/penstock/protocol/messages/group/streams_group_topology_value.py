"""StreamsGroupTopologyValue. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class StreamsGroupTopologyValue(Message, key=23, versions=(0, 0), flexible_from=0):
    """StreamsGroupTopologyValue, versions 0 to 0."""

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
    topic_configs: list[TopicConfig] = ABSENT


class TopicConfig(Struct):
    key: str = ''
    value: str = ''


class CopartitionGroup(Struct):
    source_topics: list[int] = ABSENT
    source_topic_regex: list[int] = ABSENT
    repartition_source_topics: list[int] = ABSENT
