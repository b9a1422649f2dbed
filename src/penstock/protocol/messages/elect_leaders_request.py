"""ElectLeadersRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class ElectLeadersRequest(Message, key=43, versions=(0, 2), flexible_from=2):
    """ElectLeadersRequest, versions 0 to 2."""

    election_type: int = 0
    topic_partitions: list[TopicPartitions] | None = ABSENT
    timeout_ms: int = 60000


class TopicPartitions(Struct):
    topic: str = ''
    partitions: list[int] = ABSENT
