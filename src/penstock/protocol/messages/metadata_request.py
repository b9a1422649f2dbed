"""MetadataRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class MetadataRequest(Message, key=3, versions=(0, 13), flexible_from=9):
    """MetadataRequest, versions 0 to 13."""

    topics: list[MetadataRequestTopic] | None = ABSENT
    allow_auto_topic_creation: bool = True
    include_cluster_authorized_operations: bool = False
    include_topic_authorized_operations: bool = False


class MetadataRequestTopic(Struct):
    topic_id: UUID = ZERO_UUID
    name: str | None = ''
