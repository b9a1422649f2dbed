"""AccessControlEntryRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import Message, ZERO_UUID


class AccessControlEntryRecord(Message, key=18, versions=(0, 0), flexible_from=0):
    """AccessControlEntryRecord, versions 0 to 0."""

    id: UUID = ZERO_UUID
    resource_type: int = 0
    resource_name: str = ''
    pattern_type: int = 0
    principal: str = ''
    host: str = ''
    operation: int = 0
    permission_type: int = 0
