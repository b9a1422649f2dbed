"""GuardianPlanSettingsRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class GuardianPlanSettingsRecord(Message, key=13, versions=(0, 0), flexible_from=0):
    """GuardianPlanSettingsRecord, versions 0 to 0."""

    plan_id: int = 0
    rate_bytes: int = 0
    caps: list[PlanCap] = ABSENT


class PlanCap(Struct):
    name: str = ''
    value: int = 0
