"""GuardianPlanRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class GuardianPlanRecord(Message, key=10, versions=(0, 0), flexible_from=0):
    """GuardianPlanRecord, versions 0 to 0."""

    plan_id: int = 0
    cluster_id: UUID = ZERO_UUID
    action: str = ''
    principal: str = ''
    wall_ms: int = 0
    digest: str = ''
    rate_bytes: int = 0
    caps: list[PlanCap] = ABSENT
    thin: bool = False


class PlanCap(Struct):
    name: str = ''
    value: int = 0
