"""ShareAcknowledgeRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class ShareAcknowledgeRequest(Message, key=79, versions=(1, 2), flexible_from=0):
    """ShareAcknowledgeRequest, versions 1 to 2."""

    group_id: str | None = None
    member_id: str | None = ''
    share_session_epoch: int = 0
    is_renew_ack: bool = False
    topics: list[AcknowledgeTopic] = ABSENT


class AcknowledgeTopic(Struct):
    topic_id: UUID = ZERO_UUID
    partitions: list[AcknowledgePartition] = ABSENT


class AcknowledgePartition(Struct):
    partition_index: int = 0
    acknowledgement_batches: list[AcknowledgementBatch] = ABSENT


class AcknowledgementBatch(Struct):
    first_offset: int = 0
    last_offset: int = 0
    acknowledge_types: list[int] = ABSENT
