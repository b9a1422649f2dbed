"""The log of one partition: what the node holds of it, in memory, while its files are changed by operations.

Append in two phases. *Prepare* checks a batch, assigns its offsets in place and reserves offsets and producer state; it
touches no file. The bytes go out with the next `take_operations()`: all appends of one loop turn are one `Write`, one
system call. The log end offset moves when that write has *completed*; readers never see more. With
`penstock.log.fsync=group` it moves when what was written is on disk, too (`log.group_fsync`). A failed write, flush or
roll undoes what was reserved and fails the log for good: every later call raises StorageError, and the owner takes the
directory offline. Only if there was no room, the log goes on (`penstock.log.undoing`).

Everything that changes files is an operation of the same `order` (the log's name), so appends, rolls, truncations and
deletions run first-in first-out wherever the shell runs them. State on the loop changes at once for rolls and
deletions; a truncation only bounds reads at once, installs the shortened log when it has completed, and takes appends
again when the owner has made the lower recovery point durable (`truncating` until then). Operations are collected here;
the owner hears `log_has_operations` when the first one is waiting, and takes them at the end of its turn.

Reads return slices of files, never bytes. Look-ups in indexes and batch headers go through `disk.read` and may raise
NotResident; they change nothing before, so a handler can be run again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.errors import ErrorCode, RequestError, StorageError
from penstock.log.disk import Buffer, Disk, Operation
from penstock.log.file_work import FileWork
from penstock.log.index import RELATIVE_OFFSET_MAX
from penstock.log.loading import Loaded, OpenArguments
from penstock.log.names import LEADER_EPOCHS
from penstock.log.operations import Close, Cut, DeleteFiles, Flush, ReplaceFile, Roll, Write
from penstock.log.producer_snapshot import Snapshot, Snapshots
from penstock.log.producer_state import CLIENT, Origin, new_tuple
from penstock.log.results import Appended, Duplicate, LogOwner, LogRead, Randomness
from penstock.log.retention import Retention
from penstock.log.runs import BatchAt, add_aborted, follower_batches, reserve_producers, runs_of, stamped, whole_batches
from penstock.log.segment import Segment
from penstock.log.segments import Segments
from penstock.log.space import NoSpace, Space
from penstock.log.truncation import Truncate
from penstock.log.walks import FoundOffset
from penstock.records.batch import NO_TIMESTAMP, BatchHeader, WritableBuffer, assign_offset, read_header
from penstock.records.wall import WallTime


class Log:
    """The log of one partition. See the module's head.

    Attributes:
        name: its directory, `<topic>-<partition>`. topic_id: from partition.metadata, None when there is no such file.
        config: may be replaced at any time; files that exist stay as they are until the next roll.
        log_start_offset: first offset that readers may have. log_end_offset: the one after the last append that counts.
        reserved_end_offset: the offset after the last prepared append; the next one gets it.
        producers: state of idempotent and transactional producers, as of `reserved_end_offset`.
        leader_epochs: leader epoch -> start offset.
        truncating: a truncation is under way; appends raise until its owner ended it. close_when_cut: `close` waits.
        failed: an operation failed; everything raises StorageError. closed: `close` was called.
        segments: what its files hold; asked by readers for what has nothing to do with where the log begins or ends.
        files: what is being done to them.
        generation: counts truncations; a flush of an earlier one says nothing of this log.
        space: the room in its log directory.
        snapshots: the files of the producers' state. stale_paths: files of no use, removed by the next roll.
    """

    __slots__ = (
        "close_when_cut", "closed", "config", "disk", "failed", "files", "generation", "leader_epochs",
        "log_end_offset", "log_start_offset", "name", "owner", "producers", "random", "reserved_end_offset",
        "segments", "snapshots", "space", "stale_paths", "topic_id", "truncating", "wall",
    )  # fmt: skip

    def __init__(
        self,
        disk: Disk,
        arguments: OpenArguments,
        loaded: Loaded,
        owner: LogOwner[Log],
        *,
        random: Randomness,
        wall: WallTime,
    ) -> None:
        self.disk = disk
        self.name = arguments.name
        self.config = arguments.config
        self.owner = owner
        self.random = random
        self.wall = wall
        self.topic_id = loaded.topic_id
        start = arguments.log_start_offset
        self.log_start_offset = max(start, loaded.segments[0].base_offset) if loaded.segments else start
        self.generation = 0
        self.failed = self.closed = self.close_when_cut = self.truncating = False
        self.space = Space()
        self.segments = Segments(disk)
        recovery_point = min(arguments.recovery_point, loaded.log_end_offset)
        self.files = FileWork(self.segments, self.name, recovery_point, directory_dirty=not loaded.segments)
        self._install(loaded)

    def _install(self, loaded: Loaded) -> None:
        """Takes the state that the files say."""
        self.segments.replace(loaded.segments, self.files.recovery_point, loaded.log_end_offset)
        self.files.named_to = self.segments.newest_base
        self.log_end_offset = self.reserved_end_offset = loaded.log_end_offset
        self.producers = loaded.producers
        self.leader_epochs = loaded.leader_epochs
        self.snapshots = Snapshots(self.name, loaded.snapshots)
        self.stale_paths = loaded.stale_paths + loaded.deleted_paths
        if loaded.segments:
            loaded.segments[-1].roll_jitter_ms = self._jitter_ms()

    @property
    def recovery_point(self) -> int:
        """Everything below was fsynced."""
        return self.files.recovery_point

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments' records, as in DescribeLogDirs."""
        return self.segments.size_bytes

    def last_stable_offset(self, high_watermark: int) -> int:
        """What read_committed may read up to. An open transaction may have begun before the log's start, if records
        were deleted since: as in Kafka the log starts there for these readers, too.
        """
        return max(self.producers.last_stable_offset(high_watermark), self.log_start_offset)

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
        size_bytes = len(records)
        config = self.config
        if self.failed or self.closed or self.truncating or size_bytes > config.max_segment_bytes:
            self.check_append(size_bytes)
        first = header or read_header(records)
        batches = [(0, first)] if first.size_bytes == size_bytes else whole_batches(records)
        append_time_ms = NO_TIMESTAMP
        if config.log_append_time:
            append_time_ms = self.wall.at(now_ms)
            batches = [stamped(records, position, batch, append_time_ms) for position, batch in batches]
        base_offset = next_offset = self.reserved_end_offset
        for position, batch in batches:
            assign_offset(records, position, next_offset, leader_epoch)
            next_offset += batch.last_offset_delta + 1
            if batch.producer_id >= 0 and origin is CLIENT and (known := self.producers.duplicate_of(batch)):
                return Duplicate(known.first_offset, known.last_offset, known.timestamp_ms)
        self._append(records, batches, base_offset, leader_epoch, origin=origin, now_ms=now_ms)
        return new_tuple(Appended, (base_offset, next_offset - 1, append_time_ms, size_bytes))

    def check_append(self, size_bytes: int) -> None:
        """Raises as `append_as_leader` would, whatever the batches of this size hold. Origin.RAFT asks nothing more."""
        self._check_usable()
        if size_bytes > self.config.max_segment_bytes:
            raise RequestError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"{size_bytes} bytes of records do not fit into a segment of {self.config.max_segment_bytes}",
            )

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
        batches = follower_batches(self.name, view, self.reserved_end_offset, leader_epoch, check_crcs=check_crcs)
        if not batches:
            return Appended(self.reserved_end_offset, self.reserved_end_offset - 1, NO_TIMESTAMP, 0)
        size_bytes = 0
        for run in runs_of(view, batches, self.config.max_segment_bytes):
            if run.leader_epoch < 0 <= self.leader_epochs.latest and run.batches[0][1].is_old:
                self.leader_epochs.clear()  # they do not say who wrote this: back to the high watermark, as in Kafka
                self._write_epochs()
            self._append(*run[:-1], origin=run.origin, now_ms=now_ms)
            size_bytes += len(run.records)
        return Appended(batches[0][1].base_offset, batches[-1][1].next_offset - 1, NO_TIMESTAMP, size_bytes)

    def start_epoch(self, leader_epoch: int) -> None:
        """Notes that this epoch begins at the end of the log (a leader does it when it is elected).

        The file gets it with the first record of the epoch: an epoch without any is forgotten whenever a log is opened.
        """
        self._check_usable()
        self.leader_epochs.assign(leader_epoch, self.reserved_end_offset)

    def _note_epoch(self, leader_epoch: int, start_offset: int) -> None:
        """Has the file say where the epoch of the next record begins, if it does not yet."""
        if leader_epoch > self.leader_epochs.latest:
            self.leader_epochs.assign(leader_epoch, start_offset)
        if self.leader_epochs.dirty:
            self._write_epochs()

    def _append(
        self,
        records: Buffer,
        batches: Sequence[BatchAt],
        base_offset: int,
        leader_epoch: int,
        *,
        origin: Origin,
        now_ms: int,
    ) -> None:
        """Reserves a place for a run of batches (`Run`) and their producers' state, or raises RequestError and changes
        nothing.
        """
        producers, epochs, config = self.producers, self.leader_epochs, self.config
        last_offset = base_offset - 1
        largest_timestamp_ms = NO_TIMESTAMP
        idempotent = False
        for _, batch in batches:
            last_offset += batch.last_offset_delta + 1
            largest_timestamp_ms = max(largest_timestamp_ms, batch.max_timestamp_ms)
            if batch.producer_id >= 0:
                idempotent = True
        steps = reserve_producers(producers, records, batches, base_offset, origin) if idempotent else []
        if leader_epoch > epochs.latest or epochs.dirty:
            self._note_epoch(leader_epoch, base_offset)
        size_bytes = len(records)
        segments = self.segments.all
        if not segments or segments[-1].should_roll(
            config, size_bytes, largest_timestamp_ms, last_offset, self.wall.at(now_ms)
        ):
            producers.undo(steps)  # the snapshot of the roll is of the time before these batches
            gap_fits_its_index = last_offset - self.reserved_end_offset <= RELATIVE_OFFSET_MAX
            self._roll(self.reserved_end_offset if gap_fits_its_index else base_offset, now_ms)
            steps = reserve_producers(producers, records, batches, base_offset, origin) if idempotent else []
        segment = segments[-1]
        write = self.files.open_write
        if write is None:
            write = Write(self, segment, not config.group_fsync)
            if self.files.begin_write(write):
                self.owner.log_has_operations(self)
        write.chunks.append(records)
        write.size_bytes += size_bytes
        interval_bytes = config.index_interval_bytes
        end_offset = base_offset
        for _, batch in batches:
            end_offset += batch.last_offset_delta + 1
            segment.reserve(batch.size_bytes, end_offset - 1, batch.max_timestamp_ms, interval_bytes)
        if idempotent:
            add_aborted(segment, steps)
            write.steps += steps
        write.end_offset = self.reserved_end_offset = producers.end_offset = end_offset

    # Reading

    def read(
        self, offset: int, max_bytes: int, upper_offset: int | None = None, *, at_least_one: bool = True
    ) -> LogRead:
        """Whole batches from the one that holds `offset`, ending before `upper_offset` (the log end if None).

        At most `max_bytes`, of one segment; the first batch comes whole even if it is larger when `at_least_one`.
        `upper_offset` must be a batch boundary (high watermark, last stable offset). Empty at the end.
        Raises RequestError(OFFSET_OUT_OF_RANGE) below the log start or above the log end; may raise NotResident.
        """
        end_offset = self.log_end_offset
        if not self.log_start_offset <= offset <= end_offset:
            raise RequestError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.name} has offsets {self.log_start_offset} to {end_offset}, not {offset}",
            )
        if upper_offset is None or upper_offset > end_offset:
            upper_offset = end_offset
        if offset >= upper_offset:
            return LogRead([], 0, offset)
        up_to_end = upper_offset == end_offset and not self.truncating
        return self.segments.read(offset, upper_offset, max_bytes, up_to_end=up_to_end, at_least_one=at_least_one)

    def read_bytes(self, offset: int, max_bytes: int, upper_offset: int | None = None) -> bytes:
        """Like `read`, but returns the bytes; for logs that are read by their own node. May raise NotResident."""
        found = self.read(offset, max_bytes, upper_offset)
        return b"".join(self.disk.read(piece.path, piece.position, piece.length) for piece in found.slices)

    def offset_for_timestamp(self, timestamp_ms: int) -> FoundOffset | None:
        """The first record with at least this timestamp, or None. Exact, inside compressed batches too.

        The caller compares the offset found with the high watermark or last stable offset. May raise NotResident.
        """
        found = self.segments.offset_for_timestamp(timestamp_ms, self.log_start_offset)
        return None if found is None or found.offset >= self.log_end_offset else found

    # Operations on its files

    def take_operations(self) -> list[Operation]:
        """Takes the waiting file operations, in order; the owner emits them."""
        return self.files.take(self.config.flush_after_messages)

    def _seal_write(self) -> None:
        self.files.seal_write(self.config.flush_after_messages)

    def queue(self, operation: Operation) -> None:
        """Has an operation wait for `take_operations`, after what is appended so far."""
        self._seal_write()
        self._add(operation)

    def _add(self, operation: Operation) -> None:
        if self.files.add(operation):
            self.owner.log_has_operations(self)

    def _write_epochs(self) -> None:
        self.leader_epochs.dirty = False
        path = f"{self.name}/{LEADER_EPOCHS}"
        self.queue(ReplaceFile(self, path, self.leader_epochs.encode()))

    def operation_completed(self, operation: Operation, result: Any, now_ms: int) -> None:
        """An operation that was taken has ended well."""
        self.files.outstanding -= 1
        if self.failed:
            return
        if operation.__class__ is Write:
            self._write_completed(operation, now_ms)
        elif isinstance(operation, Flush):
            self._flush_completed(operation, now_ms)
        elif type(operation) is Roll:
            self._roll_completed(operation)
        elif type(operation) is DeleteFiles:
            self.owner.log_files_deleted(self, result, now_ms)
        elif isinstance(operation, Truncate):
            self._truncate_completed(result, now_ms)

    def operation_failed(self, operation: Operation, error: OSError, now_ms: int) -> None:
        """Handles a failed operation: undoes all reservations. Unless there was no room, the log is of no more use."""
        self.files.outstanding -= 1
        if self.files.is_over(operation):
            return
        if self.failed or not isinstance(error, NoSpace) or not self.owner.log_has_no_room(self, error, now_ms):
            self.fail(error, now_ms)

    def fail(self, error: OSError, now_ms: int) -> None:
        """Gives the log up after an error of its files."""
        if self.failed:
            return
        self.failed = True
        self.producers.undo(self.files.give_up())
        self.reserved_end_offset = self.producers.end_offset = self.log_end_offset
        self.owner.log_failed(self, error, now_ms)

    def operation_broke(self, operation: Operation, error: Exception, now_ms: int) -> None:
        """A bug at the end of an operation, which was handled only in part."""
        self.broke(error, now_ms)

    def broke(self, error: Exception, now_ms: int) -> None:
        """A bug, or damage: the log does not know its own state. It cannot be used; its files are left as they are."""
        if not self.failed:
            self.failed = True
            self.files.give_up()
            self.files.pending.clear()
            self.owner.log_broke(self, error, now_ms)

    def _check_usable(self) -> None:
        if self.failed or self.closed:
            raise StorageError(f"{self.name} has failed or is closed")
        if self.truncating:
            raise RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.name} is being truncated")

    def _write_completed(self, write: Write, now_ms: int) -> None:
        self.space.written_bytes += write.size_bytes
        if not write.inline and not self.truncating and not write.sync_paths:
            self.files.hold(write)
            self.owner.log_wrote(self, now_ms)
            return
        self.files.write_completed(write, self.wall.at(now_ms), now_ms)
        if self.truncating:
            return
        self.log_end_offset = write.end_offset
        self.segments.written(write.segment, write.end_offset)
        if write.sync_paths:
            self.flushed_to(write.end_offset, now_ms)
        self.owner.log_advanced(self, now_ms)

    # Rolling, flushing, closing

    def roll(self, now_ms: int) -> None:
        """Begins a segment, unless the active one has no records."""
        self._check_usable()
        if not self.segments.all or self.segments.all[-1].reserved_bytes:
            self._roll(self.reserved_end_offset, now_ms)

    def _roll(self, base_offset: int, now_ms: int) -> None:
        """Begins a segment at `base_offset`; the producers' snapshot says what came before it."""
        old = self.segments.all[-1] if self.segments.all else None
        if old is not None:
            if base_offset == old.base_offset:
                return
            old.seal()
        new = Segment(self.name, base_offset, self.wall.at(now_ms))
        new.roll_jitter_ms = self._jitter_ms()
        self.producers.end_offset = base_offset
        self._seal_write()
        stale, self.stale_paths = self.stale_paths, []
        rolls = self.files.rolled(base_offset, follows=old is not None and base_offset == self.reserved_end_offset)
        self._add(Roll(self, old, new, self._snapshot(), stale, rolls=rolls))
        self.segments.begin(new)

    def _snapshot(self) -> Snapshot:
        return self.snapshots.take(self.producers, self.log_start_offset)

    def _jitter_ms(self) -> int:
        jitter_ms = min(self.config.segment_jitter_ms, self.config.max_segment_ms)
        return self.random.randrange(jitter_ms) if jitter_ms else 0

    def _roll_completed(self, roll: Roll) -> None:
        """Flushes the old segment in the background, as appends go on."""
        if (old := roll.old) is None:
            return
        for written in roll.index_writes:
            old.drop_written_index(written)
        if not self.closed and not self.truncating and old in self.segments.all:
            self._add(self.files.flush_rolled(self, old, roll))

    def flush(self, now_ms: int) -> None:
        """Has everything prepared so far fsynced, in order with appends; then `recovery_point` moves."""
        if self.failed or self.closed or self.truncating or not self.segments.all:
            return
        self._seal_write()
        flush = self.files.flush(self, self.reserved_end_offset)
        if flush is not None:
            self._add(flush)

    def _flush_completed(self, flush: Flush, now_ms: int) -> None:
        for segment in flush.segments:
            segment.flushed = True
        if type(flush) is Close:
            self.count_held(flush.end_offset, now_ms)
            self.files.flushed_to(flush.end_offset, self.log_end_offset, now_ms)
            self.owner.log_closed(self, now_ms)
        elif flush.generation == self.generation and not self.closed:
            self.flushed_to(flush.end_offset, now_ms)

    def flushed_to(self, offset: int, now_ms: int) -> None:
        """What the files have below an offset is durable, all that a recovery goes by included."""
        self.count_held(offset, now_ms)
        if self.files.flushed_to(offset, self.log_end_offset, now_ms):
            self.owner.log_flushed(self, now_ms)

    def count_held(self, offset: int, now_ms: int) -> None:
        """The records of the writes that were held back, below an offset, are on disk: they count from now on."""
        if (last := self.files.release(offset, self.wall.at(now_ms), now_ms)) is not None:
            self.log_end_offset = last.end_offset
            self.segments.written(last.segment, last.end_offset)
            self.owner.log_advanced(self, now_ms)

    def close(self, now_ms: int) -> None:
        """Writes what memory holds (index tails, producer snapshot), flushed; `owner.log_closed` when done.

        A log whose files say all already is closed at once, with no operation; one that is being truncated, after that.
        A failed log just ends.
        """
        assert not self.closed, f"{self.name} is closed already"
        if self.truncating and not self.failed:
            self.close_when_cut = True
            return
        self.closed = True
        if self.failed:
            return
        close = None
        if self.segments.all:
            self.segments.all[-1].seal()
            self._seal_write()
            close = self.files.close(self, self.reserved_end_offset, self._snapshot())
        if close is not None:
            self._add(close)
        else:
            self.owner.log_closed(self, now_ms)

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
        anew = offset < self.segments.bases[0]
        self._truncate(offset, offset if anew else min(offset, self.log_start_offset), now_ms, start_over=anew)
        return True

    def truncate_fully_and_start_at(self, offset: int, now_ms: int, *, log_start_offset: int | None = None) -> None:
        """Drops everything and begins again at `offset`, as a follower does whose log ends below the leader's start."""
        self._check_usable()
        self._truncate(offset, offset if log_start_offset is None else log_start_offset, now_ms, start_over=True)

    def _truncate(self, offset: int, log_start_offset: int, now_ms: int, *, start_over: bool) -> None:
        self._seal_write()
        index_writes = self.segments.all[-1].take_index_tails() if self.segments.all else []
        self.truncating = True
        self.generation += 1
        self.log_end_offset = offset if start_over else min(self.log_end_offset, offset)
        self.log_start_offset = log_start_offset
        self.files.release(self.reserved_end_offset, self.wall.at(now_ms), now_ms)
        self.reserved_end_offset = offset
        self.segments.will_be_cut()
        if start_over:
            self.leader_epochs.clear()
        else:
            self.leader_epochs.truncate_from_end(offset)
        if self.leader_epochs.dirty:
            self._write_epochs()
        cut = Cut(offset, log_start_offset, start_over, self.wall.at(now_ms))
        self.files.truncated(cut)
        self.queue(Truncate(self, cut, index_writes, self.files.counted_when_synced(self.config)))

    def _truncate_completed(self, result: Any, now_ms: int) -> None:
        if isinstance(result, Exception):
            self.broke(result, now_ms)
            return
        loaded, deleted = result
        loaded.leader_epochs = self.leader_epochs
        loaded.deleted_paths = []
        self.files.cut(loaded.log_end_offset)
        self._install(loaded)
        if self.leader_epochs.truncate_from_end(self.log_end_offset):
            self._write_epochs()
        if deleted:
            self.owner.log_files_deleted(self, deleted, now_ms)
        self.owner.log_cut(self, now_ms)

    def end_truncation(self, now_ms: int) -> None:
        """Ends a truncation after the owner has made the recovery point durable: later appends are above it after any
        crash.
        """
        assert self.truncating
        self.truncating = False
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

        Returns how many; `owner.log_files_deleted` follows. May raise NotResident (time index tails, TimesNotChecked).
        """
        if self.failed or self.closed or self.truncating or not self.segments.all:
            return 0
        rule = Retention.of(self.config, self.log_start_offset, high_watermark)
        if not (count := len(self.segments.due(rule, self.reserved_end_offset, self.wall.at(now_ms)))):
            return 0
        if count == len(self.segments.all):
            self.roll(now_ms)
        doomed = self.segments.take_oldest(count)
        self.snapshots.forget(segment.base_offset for segment in doomed)
        if self.segments.bases[0] > self.log_start_offset:
            self._move_start(self.segments.bases[0])
        paths = [path for segment in doomed for path in segment.possible_paths]
        self.queue(DeleteFiles(self, paths))
        return count
