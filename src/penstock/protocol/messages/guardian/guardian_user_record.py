"""GuardianUserRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class GuardianUserRecord(Message, key=5, versions=(0, 0), flexible_from=0):
    """GuardianUserRecord, versions 0 to 0."""

    name: str = ''
    roles: list[UserRole] = ABSENT


class UserRole(Struct):
    role: str = ''
    cluster_id: UUID = ZERO_UUID
