"""RemoveAccessControlEntryRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import Message, ZERO_UUID


class RemoveAccessControlEntryRecord(Message, key=19, versions=(0, 0), flexible_from=0):
    """RemoveAccessControlEntryRecord, versions 0 to 0."""

    id: UUID = ZERO_UUID
