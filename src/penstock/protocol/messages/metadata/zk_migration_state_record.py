"""ZkMigrationStateRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class ZkMigrationStateRecord(Message):
    """ZkMigrationStateRecord, versions 0 to 0."""

    __slots__ = ("zk_migration_state",)

    NAME = "ZkMigrationStateRecord"
    KEY = 21
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        zk_migration_state: int = 0,
    ) -> None:
        self.zk_migration_state = zk_migration_state
