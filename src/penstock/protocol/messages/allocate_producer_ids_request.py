"""AllocateProducerIdsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class AllocateProducerIdsRequest(Message, key=67, versions=(0, 0), flexible_from=0):
    """AllocateProducerIdsRequest, versions 0 to 0."""

    broker_id: int = 0
    broker_epoch: int = -1
