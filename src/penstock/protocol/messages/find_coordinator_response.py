"""FindCoordinatorResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class FindCoordinatorResponse(Message):
    """FindCoordinatorResponse, versions 0 to 6."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message", "node_id", "host", "port", "coordinators",)

    NAME = "FindCoordinatorResponse"
    KEY = 10
    MIN_VERSION = 0
    MAX_VERSION = 6
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = '',
        node_id: int = 0,
        host: str = '',
        port: int = 0,
        coordinators: list[Coordinator] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.node_id = node_id
        self.host = host
        self.port = port
        self.coordinators = [] if coordinators is ABSENT else coordinators


class Coordinator(Struct):
    __slots__ = ("key", "node_id", "host", "port", "error_code", "error_message",)

    def __init__(
        self,
        *,
        key: str = '',
        node_id: int = 0,
        host: str = '',
        port: int = 0,
        error_code: int = 0,
        error_message: str | None = '',
    ) -> None:
        self.key = key
        self.node_id = node_id
        self.host = host
        self.port = port
        self.error_code = error_code
        self.error_message = error_message
