"""GuardianLimitRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import Message, ZERO_UUID


class GuardianLimitRecord(Message, key=15, versions=(0, 0), flexible_from=0):
    """GuardianLimitRecord, versions 0 to 0."""

    cluster_id: UUID = ZERO_UUID
    kind: str = ''
    name: str = ''
    setting: str = ''
    before: str | None = None
    wanted: str = ''
    value: str = ''
    state: str = ''
    wall_ms: int = 0
