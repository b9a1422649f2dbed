"""StreamsGroupMetadataValue. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class StreamsGroupMetadataValue(Message, key=17, versions=(0, 0), flexible_from=0):
    """StreamsGroupMetadataValue, versions 0 to 0."""

    epoch: int = 0
    metadata_hash: int = 0
    validated_topology_epoch: int = -1
    last_assignment_configs: list[LastAssignmentConfig] | None = ABSENT


class LastAssignmentConfig(Struct):
    key: str = ''
    value: str = ''
