"""ProducerSnapshot. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class ProducerSnapshot(Message, key=-1, versions=(1, 1)):
    """ProducerSnapshot, versions 1 to 1."""

    crc: int = 0
    producer_entries: list[ProducerEntry] = ABSENT


class ProducerEntry(Struct):
    producer_id: int = 0
    epoch: int = 0
    last_sequence: int = 0
    last_offset: int = 0
    offset_delta: int = 0
    timestamp: int = 0
    coordinator_epoch: int = 0
    current_txn_first_offset: int = 0
