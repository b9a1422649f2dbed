"""CreateTopicsResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class CreateTopicsResponse(Message, key=19, versions=(2, 7), flexible_from=5):
    """CreateTopicsResponse, versions 2 to 7."""

    throttle_time_ms: int = 0
    topics: list[CreatableTopicResult] = ABSENT


class CreatableTopicResult(Struct):
    name: str = ''
    topic_id: UUID = ZERO_UUID
    error_code: int = 0
    error_message: str | None = ''
    topic_config_error_code: int = 0
    num_partitions: int = -1
    replication_factor: int = -1
    configs: list[CreatableTopicConfigs] | None = ABSENT


class CreatableTopicConfigs(Struct):
    name: str = ''
    value: str | None = ''
    read_only: bool = False
    config_source: int = -1
    is_sensitive: bool = False
