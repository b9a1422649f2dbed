"""MetadataRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class MetadataRequest(Message):
    """MetadataRequest, versions 0 to 13."""

    __slots__ = ("topics", "allow_auto_topic_creation", "include_cluster_authorized_operations", "include_topic_authorized_operations",)

    NAME = "MetadataRequest"
    KEY = 3
    MIN_VERSION = 0
    MAX_VERSION = 13
    FLEXIBLE_FROM = 9

    def __init__(
        self,
        *,
        topics: list[MetadataRequestTopic] | None = ABSENT,
        allow_auto_topic_creation: bool = True,
        include_cluster_authorized_operations: bool = False,
        include_topic_authorized_operations: bool = False,
    ) -> None:
        self.topics = [] if topics is ABSENT else topics
        self.allow_auto_topic_creation = allow_auto_topic_creation
        self.include_cluster_authorized_operations = include_cluster_authorized_operations
        self.include_topic_authorized_operations = include_topic_authorized_operations


class MetadataRequestTopic(Struct):
    __slots__ = ("topic_id", "name",)

    def __init__(
        self,
        *,
        topic_id: UUID = ZERO_UUID,
        name: str | None = '',
    ) -> None:
        self.topic_id = topic_id
        self.name = name
