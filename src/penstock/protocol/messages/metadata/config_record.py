"""ConfigRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class ConfigRecord(Message, key=4, versions=(0, 0), flexible_from=0):
    """ConfigRecord, versions 0 to 0."""

    resource_type: int = 0
    resource_name: str = ''
    name: str = ''
    value: str | None = ''
