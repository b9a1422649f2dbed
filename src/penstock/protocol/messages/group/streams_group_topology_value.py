"""StreamsGroupTopologyValue. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class StreamsGroupTopologyValue(Message):
    """StreamsGroupTopologyValue, versions 0 to 0."""

    __slots__ = ("epoch", "subtopologies",)

    NAME = "StreamsGroupTopologyValue"
    KEY = 23
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        epoch: int = 0,
        subtopologies: list[Subtopology] = ABSENT,
    ) -> None:
        self.epoch = epoch
        self.subtopologies = [] if subtopologies is ABSENT else subtopologies


class Subtopology(Struct):
    __slots__ = ("subtopology_id", "source_topics", "source_topic_regex", "state_changelog_topics", "repartition_sink_topics", "repartition_source_topics", "copartition_groups",)

    def __init__(
        self,
        *,
        subtopology_id: str = '',
        source_topics: list[str] = ABSENT,
        source_topic_regex: list[str] = ABSENT,
        state_changelog_topics: list[TopicInfo] = ABSENT,
        repartition_sink_topics: list[str] = ABSENT,
        repartition_source_topics: list[TopicInfo] = ABSENT,
        copartition_groups: list[CopartitionGroup] = ABSENT,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.source_topics = [] if source_topics is ABSENT else source_topics
        self.source_topic_regex = [] if source_topic_regex is ABSENT else source_topic_regex
        self.state_changelog_topics = [] if state_changelog_topics is ABSENT else state_changelog_topics
        self.repartition_sink_topics = [] if repartition_sink_topics is ABSENT else repartition_sink_topics
        self.repartition_source_topics = [] if repartition_source_topics is ABSENT else repartition_source_topics
        self.copartition_groups = [] if copartition_groups is ABSENT else copartition_groups


class TopicInfo(Struct):
    __slots__ = ("name", "partitions", "replication_factor", "topic_configs",)

    def __init__(
        self,
        *,
        name: str = '',
        partitions: int = 0,
        replication_factor: int = 0,
        topic_configs: list[TopicConfig] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions = partitions
        self.replication_factor = replication_factor
        self.topic_configs = [] if topic_configs is ABSENT else topic_configs


class TopicConfig(Struct):
    __slots__ = ("key", "value",)

    def __init__(
        self,
        *,
        key: str = '',
        value: str = '',
    ) -> None:
        self.key = key
        self.value = value


class CopartitionGroup(Struct):
    __slots__ = ("source_topics", "source_topic_regex", "repartition_source_topics",)

    def __init__(
        self,
        *,
        source_topics: list[int] = ABSENT,
        source_topic_regex: list[int] = ABSENT,
        repartition_source_topics: list[int] = ABSENT,
    ) -> None:
        self.source_topics = [] if source_topics is ABSENT else source_topics
        self.source_topic_regex = [] if source_topic_regex is ABSENT else source_topic_regex
        self.repartition_source_topics = [] if repartition_source_topics is ABSENT else repartition_source_topics
