"""PartitionRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, ZERO_UUID


class PartitionRecord(Message, key=3, versions=(0, 2), flexible_from=0):
    """PartitionRecord, versions 0 to 2."""

    partition_id: int = -1
    topic_id: UUID = ZERO_UUID
    replicas: list[int] = ABSENT
    isr: list[int] = ABSENT
    removing_replicas: list[int] = ABSENT
    adding_replicas: list[int] = ABSENT
    leader: int = -1
    leader_recovery_state: int = 0
    leader_epoch: int = -1
    partition_epoch: int = -1
    directories: list[UUID] = ABSENT
    eligible_leader_replicas: list[int] | None = None
    last_known_elr: list[int] | None = None
