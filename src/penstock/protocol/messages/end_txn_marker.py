"""EndTxnMarker. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class EndTxnMarker(Message, key=-1, versions=(0, 0)):
    """EndTxnMarker, versions 0 to 0."""

    coordinator_epoch: int = 0
