"""CreateTopicsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class CreateTopicsRequest(Message, key=19, versions=(2, 7), flexible_from=5):
    """CreateTopicsRequest, versions 2 to 7."""

    topics: list[CreatableTopic] = ABSENT
    timeout_ms: int = 60000
    validate_only: bool = False


class CreatableTopic(Struct):
    name: str = ''
    num_partitions: int = 0
    replication_factor: int = 0
    assignments: list[CreatableReplicaAssignment] = ABSENT
    configs: list[CreatableTopicConfig] = ABSENT


class CreatableReplicaAssignment(Struct):
    partition_index: int = 0
    broker_ids: list[int] = ABSENT


class CreatableTopicConfig(Struct):
    name: str = ''
    value: str | None = ''
