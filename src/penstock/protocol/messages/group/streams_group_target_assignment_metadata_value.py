"""StreamsGroupTargetAssignmentMetadataValue. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import Message


class StreamsGroupTargetAssignmentMetadataValue(Message):
    """StreamsGroupTargetAssignmentMetadataValue, versions 0 to 0."""

    __slots__ = ("assignment_epoch", "assignment_timestamp",)

    NAME = "StreamsGroupTargetAssignmentMetadataValue"
    KEY = 20
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        assignment_epoch: int = 0,
        assignment_timestamp: int = 0,
    ) -> None:
        self.assignment_epoch = assignment_epoch
        self.assignment_timestamp = assignment_timestamp
