"""The files of the metadata quorum on one disk: the log, its checkpoints, and `quorum-state`.

The directory `__cluster_metadata-0` is a partition's directory as any other, read by the same `penstock.log`. What is
different: the log is fsynced before it counts, checkpoints take the place of retention, and recovery loses nothing
that was fsynced: damage below what was ever flushed (see `flushed`) is an error, for a person to look at, and only what
had not been flushed is cut. An fsync that fails ends the process; the next one may read from the page cache what is not
on disk, and no further fsync writes that. So what was not known to be flushed, `quorum-state` too, is written again at
start, before anybody is told of it. A change that finds no room waits for some (`no_room`).

Reads happen at start, on a blocking disk. Later everything is an operation; `take_operations` asks for one flush of
all that was appended since the last, so the appends of one turn share an fsync, and so do those made while one runs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol

from penstock.config.server import Settings
from penstock.config.topic import TopicConfig
from penstock.errors import RequestError, StorageError
from penstock.log import partition_metadata
from penstock.log.disk import Buffer, Disk, Operation
from penstock.log.loading import OpenArguments
from penstock.log.log import Log
from penstock.log.names import CORRUPT, PARTITION_METADATA
from penstock.log.opening import open_log
from penstock.log.operations import LogOperation, UnlinkFiles
from penstock.log.producer_state import Origin
from penstock.log.recovery import recover_log
from penstock.log.results import Randomness
from penstock.log.space import is_full
from penstock.raft.checkpoint import (
    BOOTSTRAP,
    PARTIAL_SUFFIX,
    Checkpoint,
    CheckpointId,
    LogBatch,
    read_batches,
    read_checkpoint,
)
from penstock.raft.election import FILE, ElectionState, format_election, parse_election
from penstock.raft.flushed import FILE as NOTE
from penstock.raft.flushed import LowerFlushed, NoteFlushed, noted, read_flushed
from penstock.raft.no_room import NoRoom
from penstock.raft.operations import (
    DeleteCheckpoints,
    Installed,
    InstallSnapshot,
    PersistElection,
    WriteCheckpoint,
    WriteSnapshot,
)
from penstock.raft.replica_log import EpochEnd
from penstock.raft.topic import METADATA, QuorumTopic
from penstock.raft.voters import VoterSet
from penstock.records.wall import WallTime

READ_BYTES = 1024 * 1024
"""What one read of the log at start asks for."""
NEVER = "9223372036854775807"


class StorageOwner(Protocol):
    """The owner of a storage, which hears what the disk has done. All calls are on the loop."""

    def election_persisted(self, state: ElectionState, now_ms: int) -> None:
        """`quorum-state` holds this state durably."""

    def log_flushed(self, offset: int, now_ms: int) -> None:
        """The log is durable up to this offset."""

    def log_written(self, offset: int, now_ms: int) -> None:
        """Everything below the offset can be read."""

    def log_truncated(self, log_end_offset: int, now_ms: int) -> None:
        """The log was cut, and ends here."""

    def snapshot_written(self, snapshot: CheckpointId, size_bytes: int, now_ms: int) -> None:
        """Called when a piece of a fetched snapshot is written."""

    def snapshot_installed(
        self, snapshot: CheckpointId, voters: VoterSet | None, kraft_version: int, now_ms: int
    ) -> None:
        """Called when a fetched snapshot is installed, and the log starts again at its end."""

    def snapshot_refused(self, snapshot: CheckpointId, now_ms: int) -> None:
        """A fetched snapshot is damaged and was thrown away."""

    def checkpoint_written(self, checkpoint: CheckpointId, now_ms: int) -> None:
        """A checkpoint is complete and durable."""

    def checkpoint_found_no_room(self, now_ms: int) -> None:
        """A checkpoint was not written, since there is no room for it."""

    def has_no_room(self, error: OSError, now_ms: int) -> None:
        """Nothing more becomes durable before there is room on the disk; what was asked for is done then."""

    def has_room(self, now_ms: int) -> None:
        """Everything that waited for room is done."""

    def storage_failed(self, error: Exception, now_ms: int) -> None:
        """An operation failed. Nothing more is written or reported."""


class Storage:
    """See the module's head. To a replica it is its log (`raft.replica_log`).

    Attributes:
        election: what `quorum-state` said at start.
        checkpoints: complete checkpoints with (size in bytes, time written), oldest first.
        no_room: what waits for room on the disk.
    """

    def __init__(
        self,
        disk: Disk,
        settings: Settings,
        owner: StorageOwner,
        random: Randomness,
        now_ms: int,
        *,
        wall: WallTime | None = None,
        topic: QuorumTopic = METADATA,
    ) -> None:
        """Opens or creates the files; blocks. Raises StorageError for damage that is not a torn tail."""
        self.disk = disk
        self.owner = owner
        self.name = name = topic.directory
        self.wall = wall or WallTime()
        self.failed = False
        self._retention = (settings.metadata_max_retention_bytes, settings.metadata_max_retention_ms)
        self._operations: list[Operation] = []
        self._deleted: deque[tuple[int, Sequence[str]]] = deque()
        self._flush_wanted = False
        self._flushing = False
        self._notes = 0
        self._opening = True
        self._installing: tuple[CheckpointId, Installed] | None = None
        self._stopped: Callable[[int], None] | None = None
        if not disk.exists(name):
            disk.make_directory(name)
            disk.fsync_directory("")
        if not disk.exists(f"{name}/{PARTITION_METADATA}"):
            disk.replace_all([
                (f"{name}/{PARTITION_METADATA}", partition_metadata.encode(topic.topic_id)),
                (f"{name}/{NOTE}", noted(0)),
            ])  # fmt: skip
            disk.fsync_directory(name)
        self.checkpoints = self._find_checkpoints()
        self.election = self._read_election()
        self.log = self._open_log(settings, random, now_ms)
        self.no_room = NoRoom(self.log.files.fuse)
        newest = next(reversed(self.checkpoints), None)
        if newest is not None and newest.end_offset > 0 and not self._leads_to(newest):
            self._begin_after(newest, now_ms)
        if self.log.log_start_offset > (newest.end_offset if newest else 0):
            raise StorageError(f"{name} starts at offset {self.log.log_start_offset}, and no checkpoint goes so far")
        disk.replace(f"{name}/{NOTE}", noted(self.log.log_end_offset))
        self._opening = False

    def _leads_to(self, checkpoint: CheckpointId) -> bool:
        """Whether the log holds the record that a checkpoint ends with. One of our own, always; a longer log of other
        epochs does not hold it, and nothing of it was committed."""
        found = self.end_of_epoch(checkpoint.epoch)
        return found is not None and found.epoch == checkpoint.epoch and found.end_offset >= checkpoint.end_offset

    def _begin_after(self, checkpoint: CheckpointId, now_ms: int) -> None:
        """Ends what a crash has interrupted: a snapshot was installed, and the log had still to begin at its end."""
        LowerFlushed(self.log, self, 0).run(self.disk)
        self.log.truncate_fully_and_start_at(checkpoint.end_offset, now_ms)
        for operation in self.log.take_operations():
            self.log.operation_completed(operation, operation.run(self.disk), now_ms)

    def _find_checkpoints(self) -> dict[CheckpointId, tuple[int, int]]:
        found = {}
        for entry in self.disk.list(self.name):
            checkpoint = CheckpointId.of_file(entry.name)
            if checkpoint is not None:
                found[checkpoint] = (entry.size_bytes, entry.modified_ms)
            elif entry.name.endswith(PARTIAL_SUFFIX):
                self.disk.unlink(f"{self.name}/{entry.name}")
        return {checkpoint: found[checkpoint] for checkpoint in sorted(found)}

    def _read_election(self) -> ElectionState:
        path = f"{self.name}/{FILE}"
        if not self.disk.exists(path):
            return ElectionState()
        content = self.disk.read(path, 0, self.disk.size(path))
        election = parse_election(content, path)
        self.disk.replace(path, content)
        return election

    def _open_log(self, settings: Settings, random: Randomness, now_ms: int) -> Log:
        aside = [f"{self.name}/{entry.name}" for entry in self.disk.list(self.name) if entry.name.endswith(CORRUPT)]
        flushed_offset = read_flushed(self.disk, self.name)
        arguments = OpenArguments(self.name, log_config(settings), 0, 0, self.wall.at(now_ms))
        report = recover_log(
            self.disk, arguments, flushed_offset=flushed_offset, gapless=True, rewrite_from=flushed_offset
        )
        if report.lost or aside:
            kept_aside = sorted({*aside, *report.kept_aside})
            if not 0 <= flushed_offset <= report.log_end_offset:
                raise StorageError(damaged(self.name, report.log_end_offset if report.lost else None, kept_aside))
            for path in kept_aside:  # written, never flushed, acknowledged to nobody
                self.disk.unlink(path)
        elif flushed_offset > report.log_end_offset:
            raise StorageError(
                f"{self.name} ends at offset {report.log_end_offset}, and was once flushed up to {flushed_offset}: "
                f"restore the log from a copy, or remove {self.name}/{NOTE} to go on without what is lost"
            )
        arguments = replace(arguments, recovery_point=report.recovery_point)
        return open_log(self.disk, arguments, self, random=random, wall=self.wall)

    # Reading at start

    def newest_checkpoint(self) -> tuple[CheckpointId, Checkpoint] | None:
        """The newest checkpoint and what it holds, None if there is none. Raises StorageError if it is damaged."""
        if not self.checkpoints:
            return None
        checkpoint = next(reversed(self.checkpoints))
        path = f"{self.name}/{checkpoint.file}"
        return checkpoint, read_checkpoint(self.disk.read(path, 0, self.disk.size(path)), path)

    def batches(self, start_offset: int) -> Iterator[LogBatch]:
        """All batches of the log from the one with `start_offset` on, each checked; those that `read` gives now."""
        offset = start_offset
        while view := self.read(offset, READ_BYTES):
            for batch in read_batches(view, self.name):
                offset = batch.header.next_offset
                if offset > start_offset:
                    yield batch

    # Writing

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets."""
        return self.log.reserved_end_offset

    def append(self, batch: bytearray, epoch: int, now_ms: int) -> None:
        """Appends one batch, and has it flushed with the operations of this turn. Raises StorageError."""
        self.log.append_as_leader(batch, epoch, now_ms, origin=Origin.RAFT)
        self._flush_wanted = True

    def persist_election(self, state: ElectionState, kraft_version: int, voter_ids: Iterable[int]) -> None:
        """Writes `quorum-state`; the owner's `election_persisted` follows."""
        content = format_election(state, kraft_version, voter_ids)
        kept = [] if self.no_room.under_way else self.no_room.kept  # what is under way may come behind what is kept
        behind = [*kept, *self._operations] if self.no_room.waits else []
        waiting = [each for each in behind if isinstance(each, PersistElection)]
        if not waiting:
            self._operations.append(PersistElection(self.log, self, state, content))
            return
        first, *others = waiting  # the last one counts, and an epoch may be on disk before a record of an earlier one
        first.state, first.content = state, content
        self.no_room.kept = [each for each in self.no_room.kept if each not in others]
        self._operations = [each for each in self._operations if each not in others]

    def write_checkpoint(self, checkpoint: CheckpointId, batches: Callable[[], Iterable[bytearray]]) -> None:
        """Writes a checkpoint from `batches()`; the owner's `checkpoint_written` follows."""
        self._operations.append(WriteCheckpoint(self.disk.directory, self.name, self, checkpoint, batches))

    @property
    def has_operations(self) -> bool:
        """Whether `take_operations` may have something to do: if only to wait for a time, or for a flush to end."""
        pending = self._operations or self.log.files.pending or self._flush_wanted or self._deleted
        return bool(pending) or self.no_room.waits

    def take_operations(self, now_ms: int) -> list[Operation]:
        """The operations to run now, in order."""
        if self.failed:
            return []
        while self._deleted and self._deleted[0][0] <= now_ms:
            _, paths = self._deleted.popleft()
            self._operations.append(UnlinkFiles(self.disk.directory, self.name, self, paths))
        if self._flush_wanted and not self._flushing and not self.log.truncating:
            self._flush_wanted, self._flushing = False, True
            self.log.flush(now_ms)
        operations, self._operations = self._operations, []
        if self.no_room.waits:
            again = self.no_room.take(now_ms)
            if again is None:
                self._operations = [each for each in operations if isinstance(each, LogOperation)]
                return [each for each in operations if not isinstance(each, LogOperation)]
            operations = [*again, *operations]
        operations += self.log.take_operations()
        for operation in operations:
            operation.owner = self  # it hears first whether there was room
        self.no_room.sent(operations)
        return operations

    def next_deadline_ms(self) -> int | None:
        """When `take_operations` is wanted: for files whose deletion was delayed, or for what waits for room."""
        retry_ms = None if self.failed else self.no_room.deadline_ms
        if not self._deleted:
            return retry_ms
        return self._deleted[0][0] if retry_ms is None else min(retry_ms, self._deleted[0][0])

    def close(self, stopped: Callable[[int], None], now_ms: int) -> None:
        """Flushes and closes the log; calls `stopped(now_ms)` when the files are complete.

        Where there is no room they are left as they are: what is not in them was acknowledged to nobody.
        """
        self._stopped = stopped
        self.failed = self.failed or self.no_room.waits
        if self.failed:
            stopped(now_ms)
        else:
            self.log.close(now_ms)

    def retire(self, high_watermark: int, now_ms: int) -> None:
        """Deletes the oldest checkpoints beyond the bounds of retention, and the log that only they needed.

        The newest stays, and so does all of the log after the oldest that stays. While the log is being truncated
        nothing is deleted: the checkpoint that is written next comes soon enough.
        """
        if self.log.truncating:
            return
        bytes_max, age_max_ms = self._retention
        total_bytes = self.log.size_bytes + sum(size for size, _ in self.checkpoints.values())
        superfluous = []
        for checkpoint, (size_bytes, written_ms) in list(self.checkpoints.items())[:-1]:
            too_large = bytes_max >= 0 and total_bytes > bytes_max
            if not too_large and not (age_max_ms >= 0 and self.wall.at(now_ms) - written_ms > age_max_ms):
                break
            superfluous.append(checkpoint)
            total_bytes -= size_bytes
            del self.checkpoints[checkpoint]
        if superfluous:
            self._operations.append(DeleteCheckpoints(self.disk.directory, self.name, self, superfluous))
            oldest = next(iter(self.checkpoints))
            if oldest.end_offset > self.log.log_start_offset:
                self.log.advance_log_start(oldest.end_offset, high_watermark)
                self.log.delete_old_segments(now_ms, high_watermark)

    # A replica among several: what it reads of its log

    @property
    def start_offset(self) -> int:
        """The first offset that the log holds."""
        return self.log.log_start_offset

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, or of the checkpoint that an empty log begins after; 0 without either."""
        if self.end_offset > self.log.log_start_offset and self.log.leader_epochs.epochs:
            return self.log.leader_epochs.latest
        return self._epoch_before(self.end_offset) or 0

    def _epoch_before(self, offset: int) -> int | None:
        """The epoch of the record before an offset, by the checkpoint that ends there."""
        return next((each.epoch for each in self.checkpoints if each.end_offset == offset), None)

    def end_of_epoch(self, epoch: int) -> EpochEnd | None:
        """See `replica_log.RaftLog`."""
        last_epoch = self.last_epoch
        if epoch >= last_epoch:
            return EpochEnd(last_epoch, self.end_offset)
        epochs = self.log.leader_epochs
        after = bisect_right(epochs.epochs, epoch)
        if after:
            return EpochEnd(epochs.epochs[after - 1], epochs.start_offsets[after])
        first_offset = epochs.start_offsets[0] if epochs.start_offsets else self.end_offset
        if self.start_offset == 0 and first_offset == 0:
            return EpochEnd(0, 0)
        before = self._epoch_before(first_offset)
        return EpochEnd(before, first_offset) if before is not None and before <= epoch else None

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole batches from `offset` on; empty at the end of what is written, and perhaps while the log is cut."""
        if offset >= self.log.log_end_offset:
            return b""
        try:
            with readable(self.name):
                return self.log.read_bytes(offset, max_bytes)
        except RequestError:
            if not self.log.truncating:
                raise
            return b""

    @property
    def newest_snapshot(self) -> CheckpointId | None:
        """The newest complete checkpoint; the one of formatting is none."""
        newest = next(reversed(self.checkpoints), None)
        return None if newest == BOOTSTRAP else newest

    def snapshot_size(self, snapshot: CheckpointId) -> int | None:
        found = self.checkpoints.get(snapshot)
        return None if found is None else found[0]

    def read_snapshot(self, snapshot: CheckpointId, position: int, max_bytes: int) -> bytes:
        with readable(self.name):
            return self.disk.read(f"{self.name}/{snapshot.file}", position, max_bytes)

    # A replica among several: what it does to it

    def append_fetched(self, records: Buffer, now_ms: int) -> None:
        """Appends batches as they were fetched, and has them flushed. Raises StorageError."""
        self.log.append_as_follower(records, now_ms)
        self._flush_wanted = True

    def truncate(self, offset: int, now_ms: int) -> None:
        """Cuts the log; `log_truncated` follows. The note of what was flushed is lowered first, durably."""
        self._operations += self.log.take_operations()
        self._operations.append(LowerFlushed(self.log, self, offset))
        if not self.log.truncate_to(offset, now_ms):
            raise AssertionError("a truncation makes the log shorter")

    def write_snapshot(self, snapshot: CheckpointId, position: int, data: Buffer) -> None:
        """Writes a piece of a snapshot; `snapshot_written` follows."""
        self._operations.append(WriteSnapshot(self.log, self, snapshot, position=position, data=data))

    def install_snapshot(self, snapshot: CheckpointId) -> None:
        """Takes a fetched snapshot over, if it is whole; `snapshot_installed` or `snapshot_refused` follows."""
        self._operations.append(InstallSnapshot(self.disk.directory, self.name, self, snapshot))

    def _install(self, snapshot: CheckpointId, installed: Installed | None, now_ms: int) -> None:
        """Starts the log again at the end of a snapshot whose file is in place."""
        if installed is None:
            self.owner.snapshot_refused(snapshot, now_ms)
            return
        self._note_checkpoint(snapshot, installed.size_bytes, now_ms)
        self._installing = snapshot, installed
        self._operations += self.log.take_operations()
        self._operations.append(LowerFlushed(self.log, self, 0))
        self.log.truncate_fully_and_start_at(snapshot.end_offset, now_ms)

    def _note_checkpoint(self, checkpoint: CheckpointId, size_bytes: int, now_ms: int) -> None:
        """Adds a checkpoint. A newer one may have been fetched while this node wrote its own."""
        known = {**self.checkpoints, checkpoint: (size_bytes, self.wall.at(now_ms))}
        self.checkpoints = {each: known[each] for each in sorted(known)}

    # The end of operations

    def operation_completed(self, operation: Operation, result: Any, now_ms: int) -> None:
        self.no_room.ended(operation)
        if self.failed:
            return
        self._completed(operation, result, now_ms)
        if self.no_room.is_over():
            self.owner.has_room(now_ms)

    def _completed(self, operation: Operation, result: Any, now_ms: int) -> None:
        if isinstance(operation, PersistElection):
            self.owner.election_persisted(operation.state, now_ms)
        elif isinstance(operation, WriteCheckpoint):
            self._note_checkpoint(operation.checkpoint, result, now_ms)
            self.owner.checkpoint_written(operation.checkpoint, now_ms)
        elif isinstance(operation, WriteSnapshot):
            self.owner.snapshot_written(operation.snapshot, result, now_ms)
        elif isinstance(operation, InstallSnapshot):
            self._install(operation.snapshot, result, now_ms)
        elif is_of_log(operation):
            self.log.operation_completed(operation, result, now_ms)

    def operation_failed(self, operation: Operation, error: OSError, now_ms: int) -> None:
        self.no_room.ended(operation)
        if self.failed:
            return
        waited = self.no_room.waits
        if self.no_room.keeps(operation, error, now_ms):
            if self._stopped is not None:
                self.failed = True
                self._stopped(now_ms)
            elif self.no_room.waits and not waited:
                self.owner.has_no_room(error, now_ms)
        elif isinstance(operation, WriteCheckpoint) and is_full(error):
            self.owner.checkpoint_found_no_room(now_ms)
        elif is_of_log(operation):
            self.log.operation_failed(operation, error, now_ms)
        else:
            self._fail(error, now_ms)

    def operation_broke(self, operation: Operation, error: Exception, now_ms: int) -> None:
        """Fails the metadata log after a bug has made its state unreliable."""
        if is_of_log(operation):
            self.log.operation_broke(operation, error, now_ms)
        else:
            self._fail(error, now_ms)

    def log_broke(self, log: Log, error: Exception, now_ms: int) -> None:
        self._fail(error, now_ms)

    def _fail(self, error: Exception, now_ms: int) -> None:
        if self.failed:
            return
        self.failed = True
        self.owner.storage_failed(error, now_ms)
        if self._stopped is not None:
            self._stopped(now_ms)

    # What the log tells its owner

    def log_has_operations(self, log: Log) -> None:
        """Does nothing: the log's operations leave with this turn's `take_operations`."""

    def log_wrote(self, log: Log, now_ms: int) -> None:
        """Is not called: the metadata log counts what it has flushed by itself."""

    def log_advanced(self, log: Log, now_ms: int) -> None:
        """Notes that written records can be read; they count only once flushed."""
        if not (self._opening or self.failed):
            self.owner.log_written(log.log_end_offset, now_ms)

    def log_start_moved(self, log: Log) -> None:
        """Does nothing: the first segment, or the oldest checkpoint, determines the start of the metadata log."""

    def log_flushed(self, log: Log, now_ms: int) -> None:
        self._flushing = False
        if not self.failed:
            self._notes += 1
            self._operations.append(NoteFlushed(log, self, log.recovery_point, self._notes % 2))
            self.owner.log_flushed(log.recovery_point, now_ms)

    def log_cut(self, log: Log, now_ms: int) -> None:
        """Ends the truncation: `LowerFlushed` ran before it, and the whole log is recovered at every start."""
        log.end_truncation(now_ms)

    def log_truncated(self, log: Log, now_ms: int) -> None:
        if self._opening:
            return
        self._flushing = False
        self._flush_wanted = log.recovery_point < log.log_end_offset
        installing, self._installing = self._installing, None
        if self.failed:
            return
        if installing is None:
            self.owner.log_truncated(log.log_end_offset, now_ms)
        else:
            snapshot, installed = installing
            self.owner.snapshot_installed(snapshot, installed.voters, installed.kraft_version, now_ms)

    def log_closed(self, log: Log, now_ms: int) -> None:
        assert self._stopped is not None, "the log is closed by `close` alone"
        self._stopped(now_ms)

    def log_files_deleted(self, log: Log, paths: Sequence[str], now_ms: int) -> None:
        self._deleted.append((now_ms + log.config.file_delete_delay_ms, paths))

    def log_has_no_room(self, log: Log, error: OSError, now_ms: int) -> bool:
        """Is not asked: what finds no room is kept before the log hears of it."""
        return False

    def log_failed(self, log: Log, error: OSError, now_ms: int) -> None:
        self._fail(error, now_ms)


def is_of_log(operation: Operation) -> bool:
    """Whether the log itself has asked for an operation, and hears of its end."""
    own = PersistElection | LowerFlushed | NoteFlushed | WriteSnapshot
    return isinstance(operation, LogOperation) and not isinstance(operation, own)


@contextmanager
def readable(name: str) -> Iterator[None]:
    """Turns disk errors into a failure of the metadata log: without committed records the node cannot go on."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"{name} cannot be read: {error.strerror}") from error


def damaged(name: str, offset: int | None, kept_aside: Sequence[str]) -> str:
    """The line about a log with a damage before its end: committed records are lost unless somebody helps.

    The bytes after the damage were set aside; while they are there the log is not opened, since it ends too early.
    """
    where = "" if offset is None else f" from offset {offset} on"
    return (
        f"{name} is damaged{where}, where records were flushed; they are now in {', '.join(kept_aside)}: restore the "
        f"log from a copy, or remove these files and {name}/{NOTE} to go on without what is in them"
    )


def log_config(settings: Settings) -> TopicConfig:
    """The configuration of the metadata log as that of a topic: its own segment settings, and no retention."""
    segment_bytes = settings.internal_metadata_log_segment_bytes
    overrides = {
        "segment.bytes": str(settings.metadata_log_segment_bytes),
        "segment.ms": str(settings.metadata_log_segment_ms),
        "max.message.bytes": str(settings.internal_metadata_max_batch_size_in_bytes),
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "flush.messages": NEVER,
        "flush.ms": NEVER,
        "penstock.log.fsync": "none",
        "file.delete.delay.ms": str(settings.internal_metadata_delete_delay_millis),
        "message.timestamp.type": "CreateTime",
        "segment.jitter.ms": "0",
    }
    if segment_bytes is not None:
        overrides["internal.segment.bytes"] = str(segment_bytes)
    return TopicConfig.resolve(settings, overrides)
