"""StreamsGroupMemberMetadataValue. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class StreamsGroupMemberMetadataValue(Message, key=19, versions=(0, 0), flexible_from=0):
    """StreamsGroupMemberMetadataValue, versions 0 to 0."""

    instance_id: str | None = ''
    rack_id: str | None = ''
    client_id: str = ''
    client_host: str = ''
    rebalance_timeout_ms: int = -1
    topology_epoch: int = 0
    process_id: str = ''
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue] = ABSENT


class Endpoint(Struct):
    host: str = ''
    port: int = 0


class KeyValue(Struct):
    key: str = ''
    value: str = ''
