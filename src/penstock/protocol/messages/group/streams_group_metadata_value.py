"""StreamsGroupMetadataValue. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class StreamsGroupMetadataValue(Message):
    """StreamsGroupMetadataValue, versions 0 to 0."""

    __slots__ = ("epoch", "metadata_hash", "validated_topology_epoch", "last_assignment_configs",)

    NAME = "StreamsGroupMetadataValue"
    KEY = 17
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        epoch: int = 0,
        metadata_hash: int = 0,
        validated_topology_epoch: int = -1,
        last_assignment_configs: list[LastAssignmentConfig] | None = ABSENT,
    ) -> None:
        self.epoch = epoch
        self.metadata_hash = metadata_hash
        self.validated_topology_epoch = validated_topology_epoch
        self.last_assignment_configs = [] if last_assignment_configs is ABSENT else last_assignment_configs


class LastAssignmentConfig(Struct):
    __slots__ = ("key", "value",)

    def __init__(
        self,
        *,
        key: str = '',
        value: str = '',
    ) -> None:
        self.key = key
        self.value = value
