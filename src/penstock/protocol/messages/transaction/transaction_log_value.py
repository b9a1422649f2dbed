"""TransactionLogValue. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class TransactionLogValue(Message, key=0, versions=(0, 1), flexible_from=1):
    """TransactionLogValue, versions 0 to 1."""

    producer_id: int = 0
    previous_producer_id: int = -1
    next_producer_id: int = -1
    producer_epoch: int = 0
    next_producer_epoch: int = -1
    transaction_timeout_ms: int = 0
    transaction_status: int = 0
    transaction_partitions: list[PartitionsSchema] | None = ABSENT
    transaction_last_update_timestamp_ms: int = 0
    transaction_start_timestamp_ms: int = 0
    client_transaction_version: int = 0


class PartitionsSchema(Struct):
    topic: str = ''
    partition_ids: list[int] = ABSENT
