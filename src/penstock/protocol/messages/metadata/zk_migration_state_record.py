"""ZkMigrationStateRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class ZkMigrationStateRecord(Message, key=21, versions=(0, 0), flexible_from=0):
    """ZkMigrationStateRecord, versions 0 to 0."""

    zk_migration_state: int = 0
