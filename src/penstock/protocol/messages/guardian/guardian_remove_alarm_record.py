"""GuardianRemoveAlarmRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import Message, ZERO_UUID


class GuardianRemoveAlarmRecord(Message, key=41, versions=(0, 0), flexible_from=0):
    """GuardianRemoveAlarmRecord, versions 0 to 0."""

    alarm_id: UUID = ZERO_UUID
