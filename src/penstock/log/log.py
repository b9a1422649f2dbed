"""The log of one partition: what the node holds of it, in memory, while its files are changed by operations.

Append in two phases. *Prepare* checks a batch, assigns its offsets in place and reserves offsets and producer state; it
touches no file. The bytes go out with the next `take_operations()`: all appends of one loop turn are one `Write`, one
system call. The log end offset moves when that write has *completed*; readers never see more. A failed write, flush or
roll fails the log for good: what was reserved is undone, every later call raises StorageError, and the owner takes the
directory offline.

Everything that changes files is an operation of the same `order` (the log's name), so appends, rolls, truncations and
deletions run first-in first-out wherever the shell runs them. State on the loop changes at once for rolls and
deletions; a truncation only bounds reads at once and installs the shortened log when it has completed (`truncating`
until then). Operations are collected here; the owner hears `log_has_operations` when the first one is waiting, and
takes them at the end of its turn.

Reads return slices of files, never bytes. Look-ups in indexes and batch headers go through `disk.read` and may raise
NotResident; they change nothing before, so a handler can be run again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from penstock.config.topic import TopicConfig
from penstock.errors import CorruptRecordError, ErrorCode, RequestError
from penstock.log.changing import ChangingLog
from penstock.log.disk import Buffer, Disk, Operation
from penstock.log.index import RELATIVE_OFFSET_MAX
from penstock.log.loading import Loaded, RecoveryNeeded, load, marker_of
from penstock.log.lookup import FoundOffset
from penstock.log.operations import DeleteFiles, Flush, Fuse, Roll, UnlinkFiles, Write
from penstock.log.producer_state import Marker, Origin, Step
from penstock.log.results import AbortedTransaction, Appended, Duplicate, LogOwner, LogRead, Randomness
from penstock.log.truncation import Cut, Truncate
from penstock.records.batch import (
    NO_TIMESTAMP,
    BatchHeader,
    WritableBuffer,
    assign_offset,
    check_crc,
    headers,
    read_header,
    set_log_append_time,
)

__all__ = [
    "AbortedTransaction",
    "Appended",
    "Duplicate",
    "FoundOffset",
    "Log",
    "LogOwner",
    "LogRead",
    "Origin",
    "Randomness",
    "RecoveryNeeded",
    "UnlinkFiles",
]

BatchAt = tuple[int, BatchHeader]
"""A batch's position in the bytes given, and its header."""


class Run(NamedTuple):
    """Batches on their way into the log: their bytes, headers, and the offset from which they run on."""

    records: Buffer
    batches: list[BatchAt]
    base_offset: int
    leader_epoch: int
    origin: Origin


class Log(ChangingLog):
    """The log of one partition. See the module's head; reading is in `ReadableLog`, files in `ChangingLog`.

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
        closed: `close` was called.
        segments: oldest first, the last one active; empty until a new log has its first file. `bases`: their offsets.
    """

    __slots__ = ("topic_id",)

    def __init__(
        self,
        disk: Disk,
        name: str,
        config: TopicConfig,
        loaded: Loaded,
        *,
        recovery_point: int,
        log_start_offset: int,
        owner: LogOwner,
        random: Randomness,
    ) -> None:
        self.disk = disk
        self.name = name
        self.close_when_cut = False
        self.config = config
        self.owner = owner
        self.random = random
        self.topic_id = loaded.topic_id
        self.fuse = Fuse()
        self.log_start_offset = log_start_offset
        self.recovery_point = recovery_point
        self.pending = []
        self.writes = deque()
        self.outstanding = 0
        self.generation = 0
        self.failed = False
        self.closed = False
        self.directory_dirty = not loaded.segments
        self.flush_requested = -1
        self.first_unflushed_ms = -1
        self._install(loaded)
        self.recovery_point = min(recovery_point, self.log_end_offset)

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
        loaded = load(
            disk,
            name,
            log_start_offset=log_start_offset,
            now_ms=now_ms,
            producer_expiration_ms=producer_expiration_ms,
        )
        if loaded.segments:
            log_start_offset = max(log_start_offset, loaded.segments[0].base_offset)
        return cls(
            loop_disk or disk,
            name,
            config,
            loaded,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            owner=owner,
            random=random,
        )

    def _install(self, loaded: Loaded) -> None:
        """Takes the state that the files say; `recovery_point` is set before."""
        self.segments = loaded.segments
        self.bases = [segment.base_offset for segment in loaded.segments]
        self.log_end_offset = loaded.log_end_offset
        self.reserved_end_offset = loaded.log_end_offset
        self.producers = loaded.producers
        self.leader_epochs = loaded.leader_epochs
        self.snapshots = loaded.snapshots
        self.stale_paths = loaded.stale_paths + loaded.deleted_paths
        self.open_write = None
        self.truncating = False
        self.hints = {}
        self.ends = {}
        for segment, end_offset in zip(self.segments, self.bases[1:], strict=False):
            segment.flushed = end_offset <= self.recovery_point
        if self.segments:
            self.segments[-1].roll_jitter_ms = self._jitter_ms()

    @property
    def last_stable_offset_bound(self) -> int | None:
        """First offset of the oldest transaction that is open, or completed above the high watermark; else None.

        The last stable offset is the smaller of this and the high watermark.
        """
        return self.producers.first_unstable_offset()

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments' records, as in DescribeLogDirs."""
        return sum(segment.size_bytes for segment in self.segments)

    def update_config(self, config: TopicConfig) -> None:
        """New settings for what is to come; files stay as they are until the next roll."""
        self.config = config

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

        Raises RequestError with OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE,
        TRANSACTION_COORDINATOR_FENCED or RECORD_LIST_TOO_LARGE (larger than a segment); the log is then unchanged.
        StorageError when the log has failed.
        """
        self._check_usable()
        size_bytes = len(records)
        first = header or read_header(records)
        batches = [(0, first)] if first.size_bytes == size_bytes else whole_batches(records)
        if size_bytes > self.config.max_segment_bytes:
            raise RequestError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"{size_bytes} bytes of records do not fit into a segment of {self.config.max_segment_bytes}",
            )
        append_time_ms = NO_TIMESTAMP
        if self.config.log_append_time:
            append_time_ms = now_ms
            batches = [stamped(records, position, batch, now_ms) for position, batch in batches]
        base_offset = next_offset = self.reserved_end_offset
        for position, batch in batches:
            assign_offset(records, position, next_offset, leader_epoch)
            next_offset += batch.last_offset_delta + 1
        if origin is Origin.CLIENT:
            for _, batch in batches:
                if batch.producer_id >= 0 and (known := self.producers.duplicate_of(batch)):
                    return Duplicate(known.first_offset, known.last_offset, known.timestamp_ms)
        self._append(Run(records, batches, base_offset, leader_epoch, origin), now_ms)
        return Appended(base_offset, next_offset - 1, append_time_ms, size_bytes)

    def append_as_follower(
        self, records: Buffer, now_ms: int, *, leader_epoch: int | None = None, check_crcs: bool = False
    ) -> Appended:
        """Prepares an append of batches that carry their offsets and leader epochs; a cut-off last batch is dropped.

        Args:
            leader_epoch: of the leader that is followed: the first batch of a later one ends what is appended.
            check_crcs: whether nobody has checked them yet.

        Raises RequestError(OFFSET_OUT_OF_RANGE) when the first offset is below `reserved_end_offset`,
        CorruptRecordError when offsets do not rise or a CRC is wrong; then nothing is appended.
        """
        self._check_usable()
        view = memoryview(records)
        batches = list(headers(view))
        if leader_epoch is not None:
            batches = list(takewhile(lambda each: each[1].leader_epoch <= leader_epoch, batches))
        if not batches:
            return Appended(self.reserved_end_offset, self.reserved_end_offset - 1, NO_TIMESTAMP, 0)
        first = batches[0][1]
        if first.base_offset < self.reserved_end_offset:
            raise RequestError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.name} ends at {self.reserved_end_offset} and was given records from {first.base_offset}",
            )
        next_offset = first.base_offset
        for position, batch in batches:
            if batch.base_offset < next_offset or batch.last_offset_delta < 0:
                raise CorruptRecordError(f"{self.name} was given offset {batch.base_offset} after {next_offset - 1}")
            if check_crcs:
                check_crc(view, position, batch)
            next_offset = batch.next_offset
        size_bytes = 0
        for run in runs_of(view, batches, self.config.max_segment_bytes):
            self._append(run, now_ms)
            size_bytes += len(run.records)
        return Appended(first.base_offset, next_offset - 1, NO_TIMESTAMP, size_bytes)

    def start_epoch(self, leader_epoch: int) -> None:
        """Notes that this epoch begins at the end of the log (a leader does it when it is elected).

        The file gets it with the first record of the epoch: an epoch without any is forgotten whenever a log is opened.
        """
        self._check_usable()
        self.leader_epochs.assign(leader_epoch, self.reserved_end_offset)

    def create(self, now_ms: int) -> None:
        """Makes the files of a new log; its first append does it otherwise."""
        if not self.segments:
            self._roll(self.reserved_end_offset, now_ms)

    def _append(self, run: Run, now_ms: int) -> None:
        """Reserves a place for batches and their producers' state, or raises RequestError and changes nothing."""
        steps = self._reserve_producers(run)
        records, batches, base_offset, leader_epoch, _ = run
        if leader_epoch > self.leader_epochs.latest:
            self.leader_epochs.assign(leader_epoch, base_offset)
        if self.leader_epochs.dirty:
            self._write_epochs()
        last_offset = base_offset - 1
        largest_timestamp_ms = NO_TIMESTAMP
        for _, batch in batches:
            last_offset += batch.last_offset_delta + 1
            largest_timestamp_ms = max(largest_timestamp_ms, batch.max_timestamp_ms)
        segments = self.segments
        if not segments or segments[-1].should_roll(
            self.config, len(records), largest_timestamp_ms, last_offset, now_ms
        ):
            self._undo(steps)  # the snapshot of the roll is of the time before these batches
            self._roll(self._roll_offset(base_offset, last_offset), now_ms)
            steps = self._reserve_producers(run)
        segment = segments[-1]
        write = self.open_write
        if write is None:
            write = Write(self, segment)
            self.open_write = write
            self.writes.append(write)
            self._queue(write)
        write.chunks.append(records)
        write.size_bytes += len(records)
        interval_bytes = self.config.index_interval_bytes
        offset = base_offset
        for _, batch in batches:
            offset += batch.last_offset_delta + 1
            segment.reserve(batch.size_bytes, offset - 1, batch.max_timestamp_ms, interval_bytes)
        for step in steps:
            if step.completed is not None and step.completed.aborted:
                _, first, last, _, last_stable_offset = step.completed
                segment.aborted_index.append(step.producer_id, first, last, last_stable_offset)
        write.steps += steps
        write.end_offset = self.reserved_end_offset = self.producers.end_offset = last_offset + 1

    def _roll_offset(self, base_offset: int, last_offset: int) -> int:
        """Where a segment for these offsets begins: at the end of the last, unless a gap is too wide for its index."""
        end_offset = self.reserved_end_offset
        return end_offset if last_offset - end_offset <= RELATIVE_OFFSET_MAX else base_offset

    def _reserve_producers(self, run: Run) -> list[Step]:
        """What the batches do to their producers' state; if one of them is refused, nothing."""
        steps: list[Step] = []
        offset = run.base_offset
        for position, batch in run.batches:
            if batch.producer_id >= 0:
                marker: Marker | None = None
                if batch.is_control:
                    marker = marker_of(run.records, batch, position)
                try:
                    steps.append(self.producers.reserve(batch, offset, run.origin, marker))
                except RequestError:
                    self._undo(steps)
                    raise
            offset += batch.last_offset_delta + 1
        return steps

    def _undo(self, steps: list[Step]) -> None:
        for step in reversed(steps):
            self.producers.undo(step)

    # The end of operations

    def operation_completed(self, operation: Operation, result: Any, now_ms: int) -> None:
        """An operation that was taken has ended well."""
        self.outstanding -= 1
        if self.failed:
            return
        if type(operation) is Write:
            self._write_completed(operation, now_ms)
        elif isinstance(operation, Flush):
            self._flush_completed(operation, now_ms)
        elif type(operation) is Roll:
            self._roll_completed(operation)
        elif type(operation) is DeleteFiles:
            self.owner.log_files_deleted(self, result, now_ms)
        elif type(operation) is Truncate:
            loaded, deleted = result
            self._truncate_completed(loaded, deleted, now_ms)

    # Cutting

    def truncate_to(self, offset: int, now_ms: int) -> bool:
        """Drops everything from `offset` on. False if there was nothing to drop.

        A batch that straddles `offset` goes whole, and `log_end_offset` is then less: what is missing is fetched again.
        Reads are bounded at once; `owner.log_truncated` when the files are. Appends raise until then.
        """
        self._check_usable()
        if offset >= self.reserved_end_offset:
            if self.leader_epochs.truncate_from_end(self.reserved_end_offset):
                self._write_epochs()
            return False
        if offset < self.bases[0]:
            self._truncate(offset, offset, now_ms, start_over=True)
        else:
            self._truncate(offset, min(offset, self.log_start_offset), now_ms, start_over=False)
        return True

    def truncate_fully_and_start_at(self, offset: int, now_ms: int, *, log_start_offset: int | None = None) -> None:
        """Drops everything and begins again at `offset`, as a follower does whose log ends below the leader's start."""
        self._check_usable()
        self._truncate(offset, offset if log_start_offset is None else log_start_offset, now_ms, start_over=True)

    def _truncate(self, offset: int, log_start_offset: int, now_ms: int, *, start_over: bool) -> None:
        self._seal_write()
        index_writes = self.segments[-1].take_index_tails() if self.segments else []
        self.truncating = True
        self.generation += 1
        self.flush_requested = -1
        self.log_end_offset = offset if start_over else min(self.log_end_offset, offset)
        self.reserved_end_offset = offset
        self.recovery_point = min(self.recovery_point, offset)
        self.log_start_offset = log_start_offset
        self.hints.clear()
        self.ends.clear()
        if start_over:
            self.leader_epochs.clear()
        else:
            self.leader_epochs.truncate_from_end(offset)
        if self.leader_epochs.dirty:
            self._write_epochs()
        cut = Cut(offset, log_start_offset, start_over, now_ms, self.producers.expiration_ms)
        self._queue(Truncate(self, cut, index_writes))

    def _truncate_completed(self, loaded: Loaded, deleted: Sequence[str], now_ms: int) -> None:
        loaded.leader_epochs = self.leader_epochs
        loaded.deleted_paths = []
        self.recovery_point = min(self.recovery_point, loaded.log_end_offset)
        self._install(loaded)
        self.directory_dirty = True
        if self.leader_epochs.truncate_from_end(self.log_end_offset):
            self._write_epochs()
        if deleted:
            self.owner.log_files_deleted(self, deleted, now_ms)
        self.owner.log_truncated(self, now_ms)
        if self.close_when_cut:
            self.close(now_ms)

    def advance_log_start(self, offset: int, high_watermark: int) -> bool:
        """DeleteRecords: moves the log start. False if it is there already. Segments go with the next retention.

        Raises RequestError(OFFSET_OUT_OF_RANGE) above the high watermark.
        """
        if offset > high_watermark:
            raise RequestError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"the start of {self.name} cannot move to {offset}, above the high watermark {high_watermark}",
            )
        self._check_usable()
        if offset <= self.log_start_offset:
            return False
        self._move_start(offset)
        return True

    def _move_start(self, offset: int) -> None:
        self.log_start_offset = offset
        self.producers.replicated_to(offset)
        if self.leader_epochs.truncate_from_start(offset):
            self._write_epochs()
        self.owner.log_start_moved(self)

    def delete_old_segments(self, now_ms: int, high_watermark: int) -> int:
        """Retention by log start, size and time, as Kafka; rolls first if even the active segment is due.

        Returns how many segments went; `owner.log_files_deleted` follows. May raise NotResident (time index tails).
        """
        if self.failed or self.closed or self.truncating or not self.segments:
            return 0
        count = segments_due(self, now_ms, high_watermark)
        if not count:
            return 0
        if count == len(self.segments):
            self._roll(self.reserved_end_offset, now_ms)
        doomed = self.segments[:count]
        gone = set(self.bases[:count])
        del self.segments[:count], self.bases[:count]
        self.snapshots = [offset for offset in self.snapshots if offset not in gone]
        if self.bases[0] > self.log_start_offset:
            self._move_start(self.bases[0])
        paths = [path for segment in doomed for path in segment.possible_paths]
        self._queue(DeleteFiles(self, paths))
        return count

    def next_retention_ms(self) -> int | None:
        """When retention by time deletes the oldest segment; None if never. May raise NotResident."""
        if not self.config.delete or self.config.retention_ms < 0 or not self.size_bytes:
            return None
        return self.segments[0].retention_time_ms(self.disk) + self.config.retention_ms + 1


def runs_of(view: memoryview, batches: Sequence[BatchAt], max_bytes: int) -> Iterator[Run]:
    """A leader's batches as runs that are appended at once: offsets without gaps, of one leader epoch."""
    begin = 0
    while begin < len(batches):
        start, first = batches[begin]
        end, stop, next_offset = begin, start, first.base_offset
        while end < len(batches):
            position, batch = batches[end]
            grown = position + batch.size_bytes
            if end > begin and (
                batch.base_offset != next_offset
                or batch.leader_epoch != first.leader_epoch
                or grown - start > max_bytes
            ):
                break
            end, stop, next_offset = end + 1, grown, batch.next_offset
        places = [(position - start, batch) for position, batch in batches[begin:end]]
        yield Run(view[start:stop], places, first.base_offset, first.leader_epoch, Origin.REPLICATION)
        begin = end


def whole_batches(records: Buffer) -> list[BatchAt]:
    """The batches that fill `records`. Raises CorruptRecordError if one is cut off."""
    batches = list(headers(records))
    end = batches[-1][0] + batches[-1][1].size_bytes if batches else 0
    if end != len(records):
        raise CorruptRecordError(f"the batch at byte {end} of {len(records)} is cut off")
    return batches


def stamped(records: WritableBuffer, position: int, batch: BatchHeader, now_ms: int) -> BatchAt:
    """The batch with the time of its append, in the bytes as well."""
    set_log_append_time(records, position, now_ms)
    return position, batch._replace(max_timestamp_ms=now_ms)


def segments_due(log: Log, now_ms: int, high_watermark: int) -> int:
    """How many segments, from the oldest on, retention deletes: below the log start, then by size, then by time.

    Only segments wholly below the high watermark go, and an empty active one stays. May raise NotResident.
    """
    segments, config = log.segments, log.config
    ends = [*log.bases[1:], log.reserved_end_offset]
    eligible = 0
    while eligible < len(segments) and ends[eligible] <= high_watermark and segments[eligible].reserved_bytes:
        eligible += 1
    while eligible < len(segments) - 1 and ends[eligible] <= high_watermark:
        eligible += 1
    count = 0
    while count < min(eligible, len(segments) - 1) and ends[count] <= log.log_start_offset:
        count += 1
    if not config.delete:
        return count
    if config.retention_bytes >= 0:
        excess_bytes = sum(segment.size_bytes for segment in segments[count:]) - config.retention_bytes
        while count < eligible and excess_bytes >= segments[count].size_bytes:
            excess_bytes -= segments[count].size_bytes
            count += 1
    if config.retention_ms >= 0:
        while count < eligible and now_ms - segments[count].retention_time_ms(log.disk) > config.retention_ms:
            count += 1
    return count
