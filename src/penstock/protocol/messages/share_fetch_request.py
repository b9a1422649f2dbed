"""ShareFetchRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class ShareFetchRequest(Message, key=78, versions=(1, 2), flexible_from=0):
    """ShareFetchRequest, versions 1 to 2."""

    group_id: str | None = None
    member_id: str | None = ''
    share_session_epoch: int = 0
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = 2147483647
    max_records: int = 0
    batch_size: int = 0
    share_acquire_mode: int = 0
    is_renew_ack: bool = False
    topics: list[FetchTopic] = ABSENT
    forgotten_topics_data: list[ForgottenTopic] = ABSENT


class FetchTopic(Struct):
    topic_id: UUID = ZERO_UUID
    partitions: list[FetchPartition] = ABSENT


class FetchPartition(Struct):
    partition_index: int = 0
    partition_max_bytes: int = 0
    acknowledgement_batches: list[AcknowledgementBatch] = ABSENT


class AcknowledgementBatch(Struct):
    first_offset: int = 0
    last_offset: int = 0
    acknowledge_types: list[int] = ABSENT


class ForgottenTopic(Struct):
    topic_id: UUID = ZERO_UUID
    partitions: list[int] = ABSENT
