"""GuardianAlarmRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, ZERO_UUID


class GuardianAlarmRecord(Message, key=40, versions=(0, 0), flexible_from=0):
    """GuardianAlarmRecord, versions 0 to 0."""

    alarm_id: UUID = ZERO_UUID
    cluster_id: UUID = ZERO_UUID
    kind: str = ''
    broker: int = 0
    path: str = ''
    state: str = ''
    since_ms: int = 0
    began_ms: int = 0
    evidence: list[str] = ABSENT
    reason: str = ''
    heals: int = 0
    returns: int = 0
    asked: bool = False
    acknowledged: str = ''
