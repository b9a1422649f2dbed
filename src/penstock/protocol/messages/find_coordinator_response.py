"""FindCoordinatorResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class FindCoordinatorResponse(Message, key=10, versions=(0, 6), flexible_from=3):
    """FindCoordinatorResponse, versions 0 to 6."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ''
    node_id: int = 0
    host: str = ''
    port: int = 0
    coordinators: list[Coordinator] = ABSENT


class Coordinator(Struct):
    key: str = ''
    node_id: int = 0
    host: str = ''
    port: int = 0
    error_code: int = 0
    error_message: str | None = ''
