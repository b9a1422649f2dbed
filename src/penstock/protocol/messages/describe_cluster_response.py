"""DescribeClusterResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class DescribeClusterResponse(Message, key=60, versions=(0, 2), flexible_from=0):
    """DescribeClusterResponse, versions 0 to 2."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    endpoint_type: int = 1
    cluster_id: str = ''
    controller_id: int = -1
    brokers: list[DescribeClusterBroker] = ABSENT
    cluster_authorized_operations: int = -2147483648


class DescribeClusterBroker(Struct):
    broker_id: int = 0
    host: str = ''
    port: int = 0
    rack: str | None = None
    is_fenced: bool = False
