"""Kafka's offset checkpoint files: one number a partition, in text, replaced atomically.

    0                      version
    2                      number of lines that follow
    clicks 0 1200          topic, partition, offset
    clicks 1 1187

There are four in every log directory: how far each log is known to be on disk (recovery point), where it starts (only
if that is not where its first segment starts), the replicas' high watermarks, and where the cleaner's last pass over
each log ended.

A `Checkpoint` holds what one file says and whether that changed since it was last written. Writing is an operation
(`directory_operations.WriteCheckpoint`), which formats the lines off the loop.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.log.disk import Disk

RECOVERY_POINT = "recovery-point-offset-checkpoint"
LOG_START = "log-start-offset-checkpoint"
HIGH_WATERMARK = "replication-offset-checkpoint"
CLEANER_OFFSET = "cleaner-offset-checkpoint"
VERSION = 0
DIGITS_MAX = 20
"""Of a number of 64 bits, with its sign. Python refuses to read one of thousands."""

TopicPartition = tuple[str, int]


class MalformedCheckpoint(ValueError):
    """A malformed checkpoint file; the message names the line."""


def format_checkpoint(offsets: Mapping[TopicPartition, int]) -> bytes:
    """The content of a checkpoint file, partitions in the order of the mapping."""
    lines = [str(VERSION), str(len(offsets))]
    lines += [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    return ("\n".join(lines) + "\n").encode()


def parse_checkpoint(content: bytes) -> dict[TopicPartition, int]:
    """The entries of a checkpoint file; none if it is empty.

    Raises:
        MalformedCheckpoint: wrong version, a line that is not `topic partition offset`, or a wrong number of lines.
    """
    try:
        lines = content.decode().splitlines()
    except UnicodeDecodeError as error:
        raise MalformedCheckpoint(f"not text: {error}") from None
    if len(lines) < 2:
        return {}
    if lines[0] != str(VERSION):
        raise MalformedCheckpoint(f"line 1: version {lines[0]!r}, expected {VERSION}")
    offsets: dict[TopicPartition, int] = {}
    for number, line in enumerate(lines[2:], start=3):
        parts = line.split()
        if len(parts) != 3 or not parts[1].isdecimal() or not parts[2].removeprefix("-").isdecimal():
            raise MalformedCheckpoint(f"line {number}: {line!r} is not a topic, a partition and an offset")
        if max(len(parts[1]), len(parts[2])) > DIGITS_MAX or not -(2**63) <= int(parts[2]) < 2**63:
            name = f"{parts[0]}-{parts[1][:DIGITS_MAX]}"
            raise MalformedCheckpoint(f"line {number}: the offset of {name} has more than 64 bits")
        offsets[parts[0], int(parts[1])] = int(parts[2])
    if lines[1] != str(len(lines) - 2):
        raise MalformedCheckpoint(f"line 2: {lines[1]} entries announced, {len(lines) - 2} found")
    return offsets


class Checkpoint:
    """The intended contents of one checkpoint file in one log directory.

    Attributes:
        file: name of the file in the log directory.
        dirty: whether a number changed since the last write began.
        stale: whether a partition was removed since: the file has it, and a new one of that name must not find it.
    """

    __slots__ = ("_offsets", "dirty", "file", "stale")

    def __init__(self, file: str) -> None:
        self.file = file
        self.dirty = False
        self.stale = False
        self._offsets: dict[TopicPartition, int] = {}

    def load(self, disk: Disk) -> None:
        """Reads the file from a blocking disk; a missing one is empty.

        Raises:
            MalformedCheckpoint: it cannot be trusted; the checkpoint stays empty.
        """
        if disk.exists(self.file):
            self._offsets = parse_checkpoint(disk.read(self.file, 0, disk.size(self.file)))

    def __len__(self) -> int:
        return len(self._offsets)

    def get(self, partition: TopicPartition) -> int | None:
        return self._offsets.get(partition)

    def set(self, partition: TopicPartition, offset: int) -> bool:
        """Sets an offset; returns whether that made the checkpoint dirty."""
        offsets = self._offsets
        if self.dirty:
            offsets[partition] = offset
            return False
        if offsets.get(partition) == offset:
            return False
        offsets[partition] = offset
        self.dirty = True
        return True

    def remove(self, partition: TopicPartition) -> bool:
        """Removes a partition; returns whether that made the checkpoint dirty."""
        if self._offsets.pop(partition, None) is None:
            return False
        was_dirty, self.dirty = self.dirty, True
        self.stale = True
        return not was_dirty

    def take(self) -> dict[TopicPartition, int]:
        """Returns the offsets to write now; the checkpoint is clean from here on."""
        self.dirty = self.stale = False
        return dict(self._offsets)
