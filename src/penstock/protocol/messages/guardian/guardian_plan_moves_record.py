"""GuardianPlanMovesRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class GuardianPlanMovesRecord(Message, key=11, versions=(0, 0), flexible_from=0):
    """GuardianPlanMovesRecord, versions 0 to 0."""

    plan_id: int = 0
    moves: list[PlannedMove] = ABSENT


class PlannedMove(Struct):
    topic: str = ''
    topic_id: UUID = ZERO_UUID
    partition: int = 0
    partitions: int = 0
    before: list[int] = ABSENT
    target: list[int] = ABSENT
    directories: list[str] = ABSENT
    leader: int = -1
    parts: list[MovePart] = ABSENT


class MovePart(Struct):
    id: int = 0
    kind: str = ''
    from_broker: int = -1
    from_directory: str = ''
    to_broker: int = -1
    to_directory: str = ''
    size_bytes: int = 0
    why: str = ''
