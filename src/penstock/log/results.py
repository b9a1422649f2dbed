"""The results of a log, and what it requires of its owner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

from penstock.log.disk import FileSlice

L_contra = TypeVar("L_contra", contravariant=True)


class Appended(NamedTuple):
    """Records that were given their offsets. They are in the log once `log_end_offset` is above `last_offset`.

    `log_append_time_ms` is -1 with create time. `size_bytes` is what was appended.
    """

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    size_bytes: int


@dataclass(slots=True)
class Duplicate:
    """A batch that was appended before (KIP-98): answer with the first one's offsets, once they are in the log
    (acks=1: `log_end_offset` above `last_offset`) or replicated (acks=all: the high watermark above it)."""

    base_offset: int
    last_offset: int
    timestamp_ms: int


@dataclass(slots=True)
class LogRead:
    """The result of a read: consecutive whole batches, as slices of files.

    `next_offset` is where the next read goes on: the requested offset when nothing was found.
    """

    slices: list[FileSlice]
    size_bytes: int
    next_offset: int


class AbortedTransaction(NamedTuple):
    """A transaction whose records readers with read_committed skip. Offsets are of its first record and its marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class Randomness(Protocol):
    """The one method of `random.Random` that a log needs."""

    def randrange(self, stop: int, /) -> int: ...


class LogOwner(Protocol[L_contra]):
    """The owner of a log, which hears what happens to it, on the loop, after the log's state has changed."""

    def log_has_operations(self, log: L_contra) -> None:
        """Operations wait: call `log.take_operations()` before this turn of the loop ends and emit them in order."""

    def log_wrote(self, log: L_contra, now_ms: int) -> None:
        """Records were written that count only once they are on disk: have them fsynced (`log.group_fsync`)."""

    def log_advanced(self, log: L_contra, now_ms: int) -> None:
        """`log_end_offset` has moved forward."""

    def log_start_moved(self, log: L_contra) -> None:
        """`log_start_offset` has moved, by retention or DeleteRecords: it is in the next log start checkpoint."""

    def log_flushed(self, log: L_contra, now_ms: int) -> None:
        """`recovery_point` has moved forward: everything below it survives a power failure."""

    def log_cut(self, log: L_contra, now_ms: int) -> None:
        """The files of a truncation are cut. `recovery_point` may be lower: call `end_truncation` once that is durable,
        or a crash would trust unchecked new records.
        """

    def log_truncated(self, log: L_contra, now_ms: int) -> None:
        """A truncation has ended; the log may be appended to again."""

    def log_closed(self, log: L_contra, now_ms: int) -> None:
        """The files are complete: a clean start may follow. The object is not used any more."""

    def log_files_deleted(self, log: L_contra, paths: Sequence[str], now_ms: int) -> None:
        """Files were renamed to `.deleted`: emit `UnlinkFiles` for them after `config.file_delete_delay_ms`."""

    def log_has_no_room(self, log: L_contra, error: OSError, now_ms: int) -> bool:
        """A change of the log's files found no room, and is taken back. Returns whether the log goes on after that, for
        which it calls `undo_appends`; otherwise `log_failed` follows.
        """
        ...

    def log_failed(self, log: L_contra, error: OSError, now_ms: int) -> None:
        """An operation failed. The log cannot be used any more, and its directory must go offline."""

    def log_broke(self, log: L_contra, error: Exception, now_ms: int) -> None:
        """A bug has made this log's state unreliable. It cannot be used any more; its directory is not affected."""
