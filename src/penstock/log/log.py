"""The log of one partition: what the node holds of it, in memory, while its files are changed by operations.

Append in two phases. *Prepare* checks a batch, assigns its offsets in place and reserves offsets and producer state; it
touches no file. The bytes go out with the next `take_operations()`: all appends of one loop turn are one `Write`, one
system call. The log end offset moves when that write has *completed*; readers never see more. A failed write, flush or
roll fails the log for good: what was reserved is undone, every later call raises StorageError, and the owner takes the
directory offline.

Everything that changes files is an operation of the same `order` (the log's name), so appends, rolls, truncations and
deletions run first-in first-out wherever the shell runs them. State on the loop changes at once for rolls and deletions;
a truncation only bounds reads at once and installs the shortened log when it has completed (`truncating` until then).
Operations are collected here; the owner hears `log_has_operations` when the first one is waiting, and takes them at the
end of its turn.

Reads return slices of files, never bytes. Look-ups in indexes and batch headers go through `disk.read` and may raise
NotResident; they change nothing before, so a handler can be run again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from penstock.config.topic import TopicConfig
from penstock.log.disk import Buffer, Disk, FileSlice, Operation
from penstock.log.producer_state import Origin
from penstock.records.batch import BatchHeader, WritableBuffer


@dataclass(slots=True)
class Appended:
    """Records that were given their offsets. They are in the log once `log_end_offset` is above `last_offset`.

    `log_append_time_ms` is -1 with create time. `bytes` is what was appended.
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
    """What a read found: whole batches, one after the other, as slices of files.

    `segment_base_offset` and `position` say where the first batch is; `next_offset` is where the next read goes on
    (the requested offset when nothing was found). `first_batch_bytes` is the size of a first batch that alone is
    larger than the limit, when it was left out for that (`at_least_one` not set), else 0.
    """

    slices: list[FileSlice]
    size_bytes: int
    next_offset: int
    segment_base_offset: int
    position: int
    first_batch_bytes: int = 0


@dataclass(frozen=True, slots=True)
class FoundOffset:
    """A record found by its time. `leader_epoch` is -1 when unknown; `timestamp_ms` is the record's."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """A transaction whose records readers with read_committed skip. Offsets are of its first record and its marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class Randomness(Protocol):
    """The one method of `random.Random` that a log needs."""

    def randrange(self, stop: int) -> int: ...


class LogOwner(Protocol):
    """Who holds a log and is told what happens to it. All calls are on the loop, with the log's state already new."""

    def log_has_operations(self, log: Log) -> None:
        """Operations wait: call `log.take_operations()` before this turn of the loop ends and emit them in order."""

    def log_advanced(self, log: Log, now_ms: int) -> None:
        """`log_end_offset` has moved forward."""

    def log_flushed(self, log: Log, now_ms: int) -> None:
        """`recovery_point` has moved forward: everything below it survives a power failure."""

    def log_truncated(self, log: Log, now_ms: int) -> None:
        """A truncation has completed; the log may be appended to again."""

    def log_closed(self, log: Log, now_ms: int) -> None:
        """The files say all that memory said: a clean start may follow. The object is done with."""

    def log_files_deleted(self, log: Log, paths: Sequence[str], now_ms: int) -> None:
        """Files were renamed to `.deleted`: emit `UnlinkFiles` for them after `config.file_delete_delay_ms`."""

    def log_failed(self, log: Log, error: OSError, now_ms: int) -> None:
        """An operation failed. The log is dead and its directory must go offline."""


class Log:
    """The log of one partition. See the module's head.

    Attributes:
        name: directory within the log directory, `<topic>-<partition>`.
        topic_id: from partition.metadata, None when there is no such file.
        config: may be replaced at any time by `update_config`.
        log_start_offset: first offset that readers may have.
        log_end_offset: the offset after the last completed append.
        reserved_end_offset: the offset after the last prepared append; the next one gets it.
        recovery_point: everything below was fsynced.
        producers: state of idempotent and transactional producers, as of `reserved_end_offset`.
        leader_epochs: leader epoch -> start offset.
        truncating: a truncation is under way; appends raise until it has completed.
        failed: an operation failed; everything raises StorageError.
    """

    @classmethod
    def open(
        cls,
        disk: Disk,
        name: str,
        config: TopicConfig,
        *,
        recovery_point: int,
        log_start_offset: int,
        now_ms: int,
        owner: LogOwner,
        random: Randomness,
        producer_expiration_ms: int,
        loop_disk: Disk | None = None,
    ) -> Log:
        """Opens a log whose directory exists and whose files are good: new and empty, closed cleanly or recovered.

        Reads the directory's listing, the small checkpoint files, the producer snapshot, the tail of the active
        segment's indexes and of the segment itself. Writes nothing, so it may run in a lane or on the loop, and again
        after NotResident (raised only if `disk` raises it). A directory without segments is a new log: the first
        append (or `create`) makes the files.

        Args:
            disk: what to read with now.
            recovery_point: from recovery-point-offset-checkpoint, 0 if it has none.
            log_start_offset: from log-start-offset-checkpoint, 0 if it has none.
            owner: told what happens.
            random: for segment.jitter.ms.
            producer_expiration_ms: producer.id.expiration.ms.
            loop_disk: the disk that look-ups on the loop use; `disk` unless given.

        Raises RecoveryNeeded when a file is missing or contradicts another: run `recovery.recover_log` and open again.
        """
        raise NotImplementedError

    @property
    def last_stable_offset_bound(self) -> int | None:
        """First offset of the oldest transaction that is open, or completed above the high watermark; else None.

        The last stable offset is the smaller of this and the high watermark.
        """
        raise NotImplementedError

    # Appending

    def append_as_leader(
        self,
        records: WritableBuffer,
        leader_epoch: int,
        now_ms: int,
        *,
        header: BatchHeader | None = None,
        origin: Origin = Origin.CLIENT,
    ) -> Appended | Duplicate:
        """Prepares an append of validated batches and assigns their offsets in place.

        Args:
            records: one batch, or several one after the other; writable, kept until the write has completed. Offsets,
                leader epoch and (with LogAppendTime) timestamps and CRC are written into it.
            leader_epoch: stamped on the batches; a new one is noted in `leader_epochs` first.
            header: of the first batch, if the caller has read it already.
            origin: CLIENT checks sequences and finds duplicates; COORDINATOR and RAFT do not.

        Raises RequestError with OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, UNKNOWN_PRODUCER_ID,
        INVALID_TXN_STATE, TRANSACTION_COORDINATOR_FENCED or RECORD_LIST_TOO_LARGE (larger than a segment); the log is
        then unchanged. StorageError when the log has failed.
        """
        raise NotImplementedError

    def append_as_follower(self, records: Buffer, now_ms: int) -> Appended:
        """Prepares an append of batches that carry their offsets and leader epochs; a cut-off last batch is dropped.

        The caller has checked CRCs. Raises RequestError(OFFSET_OUT_OF_RANGE) when the first offset is below
        `reserved_end_offset`, CorruptRecordError when offsets do not rise.
        """
        raise NotImplementedError

    def start_epoch(self, leader_epoch: int) -> None:
        """Notes that this epoch begins at the end of the log (a leader does it when it is elected)."""
        raise NotImplementedError

    def take_operations(self) -> list[Operation]:
        """What waits to be done to the files, in order; the owner emits it and forgets it."""
        raise NotImplementedError

    @property
    def idle(self) -> bool:
        """Whether no operation waits or runs."""
        raise NotImplementedError

    # Reading

    def read(
        self, offset: int, max_bytes: int, upper_offset: int | None = None, *, at_least_one: bool = True
    ) -> LogRead:
        """Whole batches from the one that holds `offset`, ending before `upper_offset` (the log end if None).

        At most `max_bytes`, of one segment; the first batch comes whole even if it is larger when `at_least_one`.
        `upper_offset` must be a batch boundary (high watermark, last stable offset). Empty at the end.
        Raises RequestError(OFFSET_OUT_OF_RANGE) below the log start or above the log end; may raise NotResident.
        """
        raise NotImplementedError

    def read_bytes(self, offset: int, max_bytes: int, upper_offset: int | None = None) -> bytes:
        """As `read`, but the bytes themselves; for short logs that are read by their own node. May raise NotResident."""
        raise NotImplementedError

    def offset_for_timestamp(self, timestamp_ms: int) -> FoundOffset | None:
        """The first record with at least this timestamp, or None. Exact, inside compressed batches too.

        The caller compares the offset found with the high watermark or last stable offset. May raise NotResident.
        """
        raise NotImplementedError

    def offset_of_max_timestamp(self) -> FoundOffset | None:
        """The first record with the largest timestamp of the log (ListOffsets -3), or None. May raise NotResident."""
        raise NotImplementedError

    def aborted_transactions(self, offset: int, upper_offset: int) -> list[AbortedTransaction]:
        """Aborted transactions that overlap [offset, upper_offset). May raise NotResident."""
        raise NotImplementedError

    # Cutting

    def truncate_to(self, offset: int, now_ms: int) -> bool:
        """Drops everything from `offset` on; a batch that straddles it goes whole. False if there was nothing to drop.

        Reads are bounded at once; `owner.log_truncated` when the files are. Appends raise until then.
        """
        raise NotImplementedError

    def truncate_fully_and_start_at(self, offset: int, now_ms: int, *, log_start_offset: int | None = None) -> None:
        """Drops everything and begins again at `offset`, as a follower does whose log ends below the leader's start."""
        raise NotImplementedError

    def advance_log_start(self, offset: int, high_watermark: int) -> bool:
        """DeleteRecords: moves the log start. False if it is there already. Segments go with the next retention.

        Raises RequestError(OFFSET_OUT_OF_RANGE) above the high watermark.
        """
        raise NotImplementedError

    def delete_old_segments(self, now_ms: int, high_watermark: int) -> int:
        """Retention by log start, size and time, as Kafka; rolls first if even the active segment is due.

        Returns how many segments went; `owner.log_files_deleted` follows. May raise NotResident (time index tails).
        """
        raise NotImplementedError

    def next_retention_ms(self, now_ms: int) -> int | None:
        """When retention by time may next delete something, None if never without further appends."""
        raise NotImplementedError

    # Files

    def roll(self, now_ms: int) -> None:
        """Closes the active segment and begins the next, if the active one has any records."""
        raise NotImplementedError

    def flush(self, now_ms: int) -> None:
        """Has everything prepared so far fsynced, in order with appends; then `recovery_point` moves."""
        raise NotImplementedError

    def flush_deadline_ms(self) -> int | None:
        """When flush.ms wants a flush; None when nothing is unflushed or flush.ms is off."""
        raise NotImplementedError

    def close(self, now_ms: int) -> None:
        """Writes what memory holds (index tails, producer snapshot), flushed; `owner.log_closed` when done.

        An idle log without unflushed state is closed at once with no operation.
        """
        raise NotImplementedError

    def update_config(self, config: TopicConfig) -> None:
        """New settings for what is to come; files stay as they are until the next roll."""
        raise NotImplementedError

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments' records, as in DescribeLogDirs."""
        raise NotImplementedError

    # The end of operations (the shell calls through the operation's owner)

    def operation_completed(self, operation: Operation, result: Any, now_ms: int) -> None:
        raise NotImplementedError

    def operation_failed(self, operation: Operation, error: OSError, now_ms: int) -> None:
        raise NotImplementedError
