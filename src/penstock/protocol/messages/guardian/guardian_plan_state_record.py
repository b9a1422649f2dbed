"""GuardianPlanStateRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class GuardianPlanStateRecord(Message, key=12, versions=(0, 0), flexible_from=0):
    """GuardianPlanStateRecord, versions 0 to 0."""

    plan_id: int = 0
    state: str = ''
    reason: str = ''
    wall_ms: int = 0
