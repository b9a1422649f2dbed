"""AlterReplicaLogDirsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class AlterReplicaLogDirsRequest(Message, key=34, versions=(1, 2), flexible_from=2):
    """AlterReplicaLogDirsRequest, versions 1 to 2."""

    dirs: list[AlterReplicaLogDir] = ABSENT


class AlterReplicaLogDir(Struct):
    path: str = ''
    topics: list[AlterReplicaLogDirTopic] = ABSENT


class AlterReplicaLogDirTopic(Struct):
    name: str = ''
    partitions: list[int] = ABSENT
