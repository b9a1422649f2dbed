"""What a replica reads from its log. `raft.storage` implements it on a disk, tests in memory.

Reads never wait: the metadata log is read from the page cache of its own disk. All changes are effects.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from penstock.protocol.message import Buffer
from penstock.raft.checkpoint import CheckpointId


class EpochEnd(NamedTuple):
    """An epoch, and the offset after its last record."""

    epoch: int
    end_offset: int


class RaftLog(Protocol):
    """The log, with all appends that were prepared; only `read` is bounded by those that are written."""

    @property
    def start_offset(self) -> int:
        """The first offset of the log; earlier records are in a snapshot."""
        ...

    @property
    def end_offset(self) -> int:
        """The offset after the last record."""
        ...

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, or of the snapshot that the log begins after; 0 for a log with neither."""
        ...

    def end_of_epoch(self, epoch: int) -> EpochEnd | None:
        """The latest epoch not after `epoch` that has records, and where it ends; the end of the log for the last.

        The snapshot that the log begins after counts too. (0, 0) for an epoch before the first of a log that begins
        at 0; None where that is not known any more.
        """
        ...

    def read(self, offset: int, max_bytes: int) -> Buffer:
        """Whole batches from `offset` on, the first even if it is larger; nothing at the end of what is written."""
        ...

    @property
    def newest_snapshot(self) -> CheckpointId | None:
        """The newest complete snapshot; the one that formatting writes is none."""
        ...

    def snapshot_size(self, snapshot: CheckpointId) -> int | None:
        """The size of a snapshot in bytes, or None if it does not exist."""
        ...

    def read_snapshot(self, snapshot: CheckpointId, position: int, max_bytes: int) -> Buffer:
        """A piece of a snapshot."""
        ...
