"""CreatePartitionsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class CreatePartitionsRequest(Message, key=37, versions=(0, 3), flexible_from=2):
    """CreatePartitionsRequest, versions 0 to 3."""

    topics: list[CreatePartitionsTopic] = ABSENT
    timeout_ms: int = 0
    validate_only: bool = False


class CreatePartitionsTopic(Struct):
    name: str = ''
    count: int = 0
    assignments: list[CreatePartitionsAssignment] | None = ABSENT


class CreatePartitionsAssignment(Struct):
    broker_ids: list[int] = ABSENT
