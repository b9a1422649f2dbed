"""DescribeClusterRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class DescribeClusterRequest(Message):
    """DescribeClusterRequest, versions 0 to 2."""

    __slots__ = ("include_cluster_authorized_operations", "endpoint_type", "include_fenced_brokers",)

    NAME = "DescribeClusterRequest"
    KEY = 60
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        include_cluster_authorized_operations: bool = False,
        endpoint_type: int = 1,
        include_fenced_brokers: bool = False,
    ) -> None:
        self.include_cluster_authorized_operations = include_cluster_authorized_operations
        self.endpoint_type = endpoint_type
        self.include_fenced_brokers = include_fenced_brokers
