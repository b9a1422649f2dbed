"""StreamsGroupMemberMetadataValue. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class StreamsGroupMemberMetadataValue(Message):
    """StreamsGroupMemberMetadataValue, versions 0 to 0."""

    __slots__ = ("instance_id", "rack_id", "client_id", "client_host", "rebalance_timeout_ms", "topology_epoch", "process_id", "user_endpoint", "client_tags",)

    NAME = "StreamsGroupMemberMetadataValue"
    KEY = 19
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        instance_id: str | None = '',
        rack_id: str | None = '',
        client_id: str = '',
        client_host: str = '',
        rebalance_timeout_ms: int = -1,
        topology_epoch: int = 0,
        process_id: str = '',
        user_endpoint: Endpoint | None = None,
        client_tags: list[KeyValue] = ABSENT,
    ) -> None:
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.topology_epoch = topology_epoch
        self.process_id = process_id
        self.user_endpoint = user_endpoint
        self.client_tags = [] if client_tags is ABSENT else client_tags


class Endpoint(Struct):
    __slots__ = ("host", "port",)

    def __init__(
        self,
        *,
        host: str = '',
        port: int = 0,
    ) -> None:
        self.host = host
        self.port = port


class KeyValue(Struct):
    __slots__ = ("key", "value",)

    def __init__(
        self,
        *,
        key: str = '',
        value: str = '',
    ) -> None:
        self.key = key
        self.value = value
