"""DescribeLogDirsResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class DescribeLogDirsResponse(Message, key=35, versions=(1, 5), flexible_from=2):
    """DescribeLogDirsResponse, versions 1 to 5."""

    throttle_time_ms: int = 0
    error_code: int = 0
    results: list[DescribeLogDirsResult] = ABSENT


class DescribeLogDirsResult(Struct):
    error_code: int = 0
    log_dir: str = ''
    topics: list[DescribeLogDirsTopic] = ABSENT
    total_bytes: int = -1
    usable_bytes: int = -1
    is_cordoned: bool = False


class DescribeLogDirsTopic(Struct):
    name: str = ''
    partitions: list[DescribeLogDirsPartition] = ABSENT


class DescribeLogDirsPartition(Struct):
    partition_index: int = 0
    partition_size: int = 0
    offset_lag: int = 0
    is_future_key: bool = False
