"""Staged batches become those of a transaction: their order, their sequences, and what is written into their headers.

A broker takes the batches of a producer in a partition only if each goes on where the one before ended; a producer that
has just begun an epoch starts at sequence 0. So the plan counts through the batches of each partition, task by task in
the order of Spark's commit messages. A batch is stamped where it lies: attributes, producer and CRC change, its records
do not, however they are compressed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from penstock.errors import CorruptRecordError, InvalidRecordError
from penstock.records.batch import (
    ATTRIBUTES,
    ATTRIBUTES_POSITION,
    CRC,
    CRC_POSITION,
    NO_PRODUCER_ID,
    PRODUCER,
    PRODUCER_POSITION,
    TRANSACTIONAL_FLAG,
    check_crc,
    computed_crc,
    increment_sequence,
    read_header,
)
from penstock.spark.write.rows import SinkError
from penstock.spark.write.staging import Staged, StagedBatch


class Planned(NamedTuple):
    """A batch that is to be sent, with the task's stage where it lies and the sequence of its first record."""

    staged: Staged
    batch: StagedBatch
    base_sequence: int


def planned(stages: Sequence[Staged]) -> dict[int, list[Planned]]:
    """All batches by partition, in the order in which they are to be sent."""
    plan: dict[int, list[Planned]] = {}
    sequences: dict[int, int] = {}
    for staged in stages:
        for batch in staged.batches:
            sequence = sequences.get(batch.partition, 0)
            plan.setdefault(batch.partition, []).append(Planned(staged, batch, sequence))
            sequences[batch.partition] = increment_sequence(sequence, batch.records)
    return plan


def stamp(batch: bytearray, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
    """Makes a batch without a producer one of this producer's transaction."""
    assert producer_id > NO_PRODUCER_ID
    attributes = read_header(batch).attributes | TRANSACTIONAL_FLAG
    ATTRIBUTES.pack_into(batch, ATTRIBUTES_POSITION, attributes)
    PRODUCER.pack_into(batch, PRODUCER_POSITION, producer_id, producer_epoch, base_sequence)
    CRC.pack_into(batch, CRC_POSITION, computed_crc(batch, 0, len(batch)))


def check_staged(content: bytearray, batch: StagedBatch, where: str) -> None:
    """Raises SinkError unless the bytes are the batch that its task staged; `where` is the file."""
    try:
        header = read_header(content)
        whole = header.size_bytes == len(content) == batch.size_bytes and header.record_count == batch.records
        if whole and not header.has_producer_id:
            check_crc(content, 0, header)
            return
    except (CorruptRecordError, InvalidRecordError):
        pass
    raise SinkError(
        f"{where} is damaged at byte {batch.position}: it is not what the task wrote there. Nothing was committed;"
        " start the query again, and its last microbatch is staged anew"
    )
