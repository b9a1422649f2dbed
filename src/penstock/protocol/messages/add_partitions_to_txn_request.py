"""AddPartitionsToTxnRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class AddPartitionsToTxnRequest(Message, key=24, versions=(0, 5), flexible_from=3):
    """AddPartitionsToTxnRequest, versions 0 to 5."""

    transactions: list[AddPartitionsToTxnTransaction] = ABSENT
    v3_and_below_transactional_id: str = ''
    v3_and_below_producer_id: int = 0
    v3_and_below_producer_epoch: int = 0
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = ABSENT


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: str = ''
    producer_id: int = 0
    producer_epoch: int = 0
    verify_only: bool = False
    topics: list[AddPartitionsToTxnTopic] = ABSENT


class AddPartitionsToTxnTopic(Struct):
    name: str = ''
    partitions: list[int] = ABSENT
