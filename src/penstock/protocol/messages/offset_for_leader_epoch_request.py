"""OffsetForLeaderEpochRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class OffsetForLeaderEpochRequest(Message):
    """OffsetForLeaderEpochRequest, versions 2 to 4."""

    __slots__ = ("replica_id", "topics",)

    NAME = "OffsetForLeaderEpochRequest"
    KEY = 23
    MIN_VERSION = 2
    MAX_VERSION = 4
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        replica_id: int = -2,
        topics: list[OffsetForLeaderTopic] = ABSENT,
    ) -> None:
        self.replica_id = replica_id
        self.topics = [] if topics is ABSENT else topics


class OffsetForLeaderTopic(Struct):
    __slots__ = ("topic", "partitions",)

    def __init__(
        self,
        *,
        topic: str = '',
        partitions: list[OffsetForLeaderPartition] = ABSENT,
    ) -> None:
        self.topic = topic
        self.partitions = [] if partitions is ABSENT else partitions


class OffsetForLeaderPartition(Struct):
    __slots__ = ("partition", "current_leader_epoch", "leader_epoch",)

    def __init__(
        self,
        *,
        partition: int = 0,
        current_leader_epoch: int = -1,
        leader_epoch: int = 0,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.leader_epoch = leader_epoch
