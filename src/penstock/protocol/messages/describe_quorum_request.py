"""DescribeQuorumRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class DescribeQuorumRequest(Message, key=55, versions=(0, 2), flexible_from=0):
    """DescribeQuorumRequest, versions 0 to 2."""

    topics: list[TopicData] = ABSENT


class TopicData(Struct):
    topic_name: str = ''
    partitions: list[PartitionData] = ABSENT


class PartitionData(Struct):
    partition_index: int = 0
