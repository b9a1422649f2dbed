"""DescribeClusterRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class DescribeClusterRequest(Message, key=60, versions=(0, 2), flexible_from=0):
    """DescribeClusterRequest, versions 0 to 2."""

    include_cluster_authorized_operations: bool = False
    endpoint_type: int = 1
    include_fenced_brokers: bool = False
