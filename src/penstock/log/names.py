"""The names of logs' directories and of the files in them, as Kafka writes them.

A file's is the base offset in 20 digits and a suffix that says what it is.
"""

from __future__ import annotations

from uuid import UUID

LOG = ".log"
OFFSET_INDEX = ".index"
TIME_INDEX = ".timeindex"
ABORTED_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"
CHECKPOINT = ".checkpoint"
"""A snapshot of the metadata log, whose name has its epoch besides; and `bootstrap.checkpoint`."""
INDEX_SUFFIXES = (OFFSET_INDEX, TIME_INDEX, ABORTED_INDEX)

DELETED = ".deleted"
CLEANED = ".cleaned"
SWAP = ".swap"
CORRUPT = ".corrupt"
"""Ours: bytes that a recovery took out of the log and did not dare to delete. Kafka ignores such files."""

LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
UNFLUSHED_ROLLS = "unflushed-rolls"
"""Ours, see `penstock.log.rolls`. Kafka passes over it."""

OFFSET_DIGITS = 20

FUTURE_SUFFIX = "-future"
NAME_BYTES_MAX = 255
"""Longest name of a directory in the usual file systems; topics are cut to fit when a suffix is added."""


COORDINATOR_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""The topics in which coordinators keep their state."""


def file_name(offset: int, suffix: str) -> str:
    """`00000000000000000042.log` for (42, LOG)."""
    return f"{offset:0{OFFSET_DIGITS}d}{suffix}"


def offset_of(name: str, suffix: str) -> int | None:
    """The offset in a file name with that suffix; None when the name is something else."""
    digits = name.removesuffix(suffix)
    if len(digits) != OFFSET_DIGITS or len(digits) + len(suffix) != len(name):
        return None
    return int(digits) if digits.isascii() and digits.isdigit() else None


def parse_name(name: str) -> tuple[str, int] | None:
    """Topic and partition of a log's directory name; None for names that are none (`-delete`, `-stray`, `-future`)."""
    topic, separator, partition = name.rpartition("-")
    if not separator or not topic or not partition.isascii() or not partition.isdigit():
        return None
    return topic, int(partition)


def parse_future_name(name: str) -> tuple[str, int] | None:
    """Topic and partition of a future replica's directory, `<topic>-<partition>.<32 hex digits>-future`; else None."""
    partition, separator, unique = name.removesuffix(FUTURE_SUFFIX).rpartition(".")
    return parse_name(partition) if separator and name.endswith(FUTURE_SUFFIX) and len(unique) == 32 else None


def aside_name(topic: str, partition: int, unique: UUID, suffix: str) -> str:
    """`<topic>-<partition>.<32 hex digits>-<suffix>`, as Kafka renames what is to go; a long topic is cut to fit."""
    end = f"-{partition}.{unique.hex}-{suffix}"
    return topic[: NAME_BYTES_MAX - len(end)] + end
