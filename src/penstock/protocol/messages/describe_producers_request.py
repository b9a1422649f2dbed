"""DescribeProducersRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class DescribeProducersRequest(Message, key=61, versions=(0, 0), flexible_from=0):
    """DescribeProducersRequest, versions 0 to 0."""

    topics: list[TopicRequest] = ABSENT


class TopicRequest(Struct):
    name: str = ''
    partition_indexes: list[int] = ABSENT
