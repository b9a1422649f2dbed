"""ControlRecordTypeSchema. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class ControlRecordTypeSchema(Message, key=-1, versions=(0, 0)):
    """ControlRecordTypeSchema, versions 0 to 0."""

    type: int = 0
