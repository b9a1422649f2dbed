"""UnfenceBrokerRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class UnfenceBrokerRecord(Message, key=8, versions=(0, 0), flexible_from=0):
    """UnfenceBrokerRecord, versions 0 to 0."""

    id: int = 0
    epoch: int = 0
