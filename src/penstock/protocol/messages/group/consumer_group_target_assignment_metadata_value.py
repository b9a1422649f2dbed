"""ConsumerGroupTargetAssignmentMetadataValue. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class ConsumerGroupTargetAssignmentMetadataValue(Message, key=6, versions=(0, 0), flexible_from=0):
    """ConsumerGroupTargetAssignmentMetadataValue, versions 0 to 0."""

    assignment_epoch: int = 0
    assignment_timestamp: int = 0
