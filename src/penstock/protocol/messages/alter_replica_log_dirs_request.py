"""AlterReplicaLogDirsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class AlterReplicaLogDirsRequest(Message):
    """AlterReplicaLogDirsRequest, versions 1 to 2."""

    __slots__ = ("dirs",)

    NAME = "AlterReplicaLogDirsRequest"
    KEY = 34
    MIN_VERSION = 1
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        dirs: list[AlterReplicaLogDir] = ABSENT,
    ) -> None:
        self.dirs = [] if dirs is ABSENT else dirs


class AlterReplicaLogDir(Struct):
    __slots__ = ("path", "topics",)

    def __init__(
        self,
        *,
        path: str = '',
        topics: list[AlterReplicaLogDirTopic] = ABSENT,
    ) -> None:
        self.path = path
        self.topics = [] if topics is ABSENT else topics


class AlterReplicaLogDirTopic(Struct):
    __slots__ = ("name", "partitions",)

    def __init__(
        self,
        *,
        name: str = '',
        partitions: list[int] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is ABSENT else partitions
