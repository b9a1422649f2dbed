"""The names of a log's files, as Kafka writes them: the base offset in 20 digits and a suffix that says what it is."""

from __future__ import annotations

LOG = ".log"
OFFSET_INDEX = ".index"
TIME_INDEX = ".timeindex"
ABORTED_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"
SEGMENT_SUFFIXES = (LOG, OFFSET_INDEX, TIME_INDEX, ABORTED_INDEX)
INDEX_SUFFIXES = (OFFSET_INDEX, TIME_INDEX, ABORTED_INDEX)

DELETED = ".deleted"
CLEANED = ".cleaned"
SWAP = ".swap"
CORRUPT = ".corrupt"
"""Ours: bytes that a recovery took out of the log and did not dare to delete. Kafka ignores such files."""

LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"

OFFSET_DIGITS = 20


def file_name(offset: int, suffix: str) -> str:
    """`00000000000000000042.log` for (42, LOG)."""
    return f"{offset:0{OFFSET_DIGITS}d}{suffix}"


def offset_of(name: str, suffix: str) -> int | None:
    """The offset in a file name with that suffix; None when the name is something else."""
    digits = name.removesuffix(suffix)
    if len(digits) != OFFSET_DIGITS or len(digits) + len(suffix) != len(name):
        return None
    return int(digits) if digits.isascii() and digits.isdigit() else None
