"""DeleteGroupsResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class DeleteGroupsResponse(Message):
    """DeleteGroupsResponse, versions 0 to 2."""

    __slots__ = ("throttle_time_ms", "results",)

    NAME = "DeleteGroupsResponse"
    KEY = 42
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[DeletableGroupResult] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is ABSENT else results


class DeletableGroupResult(Struct):
    __slots__ = ("group_id", "error_code",)

    def __init__(
        self,
        *,
        group_id: str = '',
        error_code: int = 0,
    ) -> None:
        self.group_id = group_id
        self.error_code = error_code
