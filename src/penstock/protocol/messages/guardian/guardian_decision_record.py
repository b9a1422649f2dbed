"""GuardianDecisionRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class GuardianDecisionRecord(Message, key=17, versions=(0, 0), flexible_from=0):
    """GuardianDecisionRecord, versions 0 to 0."""

    decision_id: int = 0
    plan_id: int = 0
    kind: str = ''
    principal: str = ''
    wall_ms: int = 0
    text: str = ''
    detail: str = ''
