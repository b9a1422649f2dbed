"""A log's changes to its files: the operations that wait and run, and how much of what they wrote is durable.

A log creates its operations, queues them here and says when each has ended; what that means for offsets and readers is
decided by the log. Appends of one turn join one open `Write`, until another operation follows it or it is taken.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice, takewhile
from typing import NamedTuple

from penstock.config.topic import TopicConfig
from penstock.log.disk import Operation
from penstock.log.operations import Close, Cut, Flush, Fuse, LogOperation, OperatedLog, Roll, Write
from penstock.log.producer_snapshot import Snapshot
from penstock.log.producer_state import Step
from penstock.log.segment import Segment
from penstock.log.segments import Segments


class Unsynced(NamedTuple):
    """What was written of a log and waits for an fsync.

    `end_offset` is where it ends, `paths` are the files with its records, `newest_base` is the base offset of the last
    of them. `names`: the directory does not durably have all of these files. `paths_before`: files of segments that
    were closed before and may not be on disk, where a recovery would end the log; retention may take them away.
    """

    end_offset: int
    paths: Sequence[str]
    paths_before: Sequence[str]
    newest_base: int
    names: bool


class FileWork:
    """The operations of one log.

    Attributes:
        directory: index of the log directory. name: the log's directory in it.
        fuse: blown by the first operation that fails.
        pending: operations to be taken. outstanding: those and the ones taken that have not ended.
        open_write: the last pending write while appends may still join it; `writes`: all that do not count yet. The
            first `held` of them have ended, and wait for an fsync.
        named_to: the directory was fsynced when it had the segments up to this base offset.
        recovery_point: everything below was fsynced.
        flush_requested: the end offset of the last flush that was queued.
        first_unflushed_ms: when the oldest write completed that is not flushed; -1 if all are.
        directory_dirty: files were made or renamed since the directory was last flushed.
        cut_to: the truncation that is under way, if any.
        rolls: where segments begin that followed on the last record, as long as that was not flushed (`log.rolls`).
    """

    __slots__ = (
        "cut_to",
        "directory",
        "directory_dirty",
        "first_unflushed_ms",
        "flush_requested",
        "fuse",
        "held",
        "name",
        "named_to",
        "open_write",
        "outstanding",
        "pending",
        "recovery_point",
        "rolls",
        "segments",
        "writes",
    )

    def __init__(self, segments: Segments, name: str, recovery_point: int, *, directory_dirty: bool) -> None:
        self.segments = segments
        self.directory = segments.disk.directory
        self.name = name
        self.fuse = Fuse()
        self.pending: list[Operation] = []
        self.outstanding = 0
        self.open_write: Write | None = None
        self.writes: deque[Write] = deque()
        self.held = 0
        self.named_to = segments.newest_base
        self.recovery_point = recovery_point
        self.flush_requested = -1
        self.first_unflushed_ms = -1
        self.directory_dirty = directory_dirty
        self.cut_to: Cut | None = None
        self.rolls: list[int] = []

    # The queue

    def add(self, operation: Operation) -> bool:
        """Queues an operation. Returns whether it is the first one waiting."""
        self.outstanding += 1
        self.pending.append(operation)
        return len(self.pending) == 1

    def begin_write(self, write: Write) -> bool:
        """Like `add`, for a write that later appends may join."""
        self.open_write = write
        self.writes.append(write)
        self.outstanding += 1
        self.pending.append(write)
        return len(self.pending) == 1

    def seal_write(self, flush_messages: int) -> None:
        """Completes the open write, with index entries and an fsync if they are due; later appends begin another."""
        write, self.open_write = self.open_write, None
        if write is None:
            return
        segment = write.segment
        assert segment.largest_timestamp_ms is not None, "the active segment knows its largest timestamp"
        write.largest = segment.largest_timestamp_ms, segment.largest_timestamp_offset
        if segment.indexes_grew:
            segment.indexes_grew = False
            if segment.index_tails_are_long:
                write.index_writes = segment.take_index_tails()
        if write.end_offset - self.recovery_point >= flush_messages:
            write.sync_paths = self._unflushed_paths()
            write.sync_directory = self.name if self.directory_dirty else None
            write.inline = False
            self.directory_dirty = False

    def take(self, flush_messages: int) -> list[Operation]:
        """Takes the waiting operations, in order."""
        self.seal_write(flush_messages)
        pending, self.pending = self.pending, []
        return pending

    def write_completed(self, write: Write, wall_ms: int, now_ms: int) -> None:
        """The records of a write are in their file, and count. So do those of the writes that were held back before."""
        while (first := self.writes.popleft()) is not write:
            assert self.held, "the writes of a log complete in order"
            self.held -= 1
            self._count(first, wall_ms, now_ms)
        self._count(write, wall_ms, now_ms)

    def hold(self, write: Write) -> None:
        """The records of a write are in their file, and count only once they are on disk."""
        assert self.writes[self.held] is write, "the writes of a log complete in order"
        self.held += 1

    def release(self, end_offset: int, wall_ms: int, now_ms: int) -> Write | None:
        """What was held back below an offset is on disk. Returns the last of the writes that count now."""
        last = None
        while self.held and self.writes[0].end_offset <= end_offset:
            last = self.writes.popleft()
            self.held -= 1
            self._count(last, wall_ms, now_ms)
        return last

    def _count(self, write: Write, wall_ms: int, now_ms: int) -> None:
        segment = write.segment
        segment.size_bytes = write.position + write.size_bytes
        segment.modified_ms = wall_ms
        segment.largest_written = write.largest
        for written in write.index_writes:
            segment.drop_written_index(written)
        if self.first_unflushed_ms < 0:
            self.first_unflushed_ms = now_ms

    def give_up(self) -> list[Step]:
        """Nothing more will be written. Returns the reservations of the writes that have not completed."""
        self.open_write = None
        steps = [step for write in self.writes for step in write.steps]
        self.writes.clear()
        self.held = 0
        return steps

    def begin_anew(self) -> list[Step]:
        """Like `give_up`, but for a log that goes on: operations that wait or run fail, and those added later do not
        care.
        """
        self.outstanding -= len(self.pending)
        self.pending.clear()
        self.fuse = Fuse()
        self.flush_requested = -1
        self.directory_dirty = True
        return self.give_up()

    def is_over(self, operation: Operation) -> bool:
        """Whether an operation was given up by `begin_anew`."""
        return isinstance(operation, LogOperation) and operation.fuse is not self.fuse

    # Held back until it is on disk

    def unsynced(self, files_max: int) -> Unsynced | None:
        """What an fsync has to cover for the oldest of what is held back to count; None if nothing is."""
        paths: list[str] = []
        end_offset, newest_base = 0, -1
        for write in islice(self.writes, self.held):
            if not paths or write.path != paths[-1]:
                if len(paths) == files_max:
                    break
                paths.append(write.path)
            end_offset, newest_base = write.end_offset, write.segment.base_offset
        if not paths:
            return None
        oldest_base = self.writes[0].segment.base_offset
        before = [each.log_path for each in self._unflushed() if each.base_offset < oldest_base]
        return Unsynced(end_offset, paths, before, newest_base, newest_base > self.named_to)

    # Flushing

    def rolled(self, base_offset: int, *, follows: bool) -> list[int]:
        """A segment begins; `follows`: directly after the last record before. Returns the `rolls` to record."""
        self.directory_dirty = True
        self.rolls = [offset for offset in self.rolls if offset > self.recovery_point]
        if follows and base_offset > self.recovery_point:
            self.rolls.append(base_offset)
        return self.rolls

    def truncated(self, cut: Cut) -> None:
        """A truncation begins: forgets what was written and flushed from its offset on."""
        offset = cut.offset
        self.cut_to = cut
        self.flush_requested = -1
        self.recovery_point = min(self.recovery_point, offset)
        self.rolls = [base_offset for base_offset in self.rolls if base_offset <= offset]

    def cut(self, log_end_offset: int) -> None:
        """The files of a truncation are cut."""
        self.cut_to = None
        self.recovery_point = min(self.recovery_point, log_end_offset)
        self.directory_dirty = True
        self.named_to = -1

    def flush(self, log: OperatedLog, end_offset: int) -> Flush | None:
        """A flush of everything up to the end, in order with appends; None if one is queued already."""
        if end_offset <= max(self.recovery_point, self.flush_requested) and not self.directory_dirty:
            return None
        self.flush_requested = end_offset
        flush = Flush(log, end_offset, self._unflushed(), self._unflushed_paths())
        if not self.directory_dirty:
            flush.directory_path = None
        self.directory_dirty = False
        return flush

    def flush_rolled(self, log: OperatedLog, old: Segment, roll: Roll) -> Flush:
        """A background flush of the segment that was closed, and of those before it."""
        covered = [each for each in self.segments.all if not each.flushed and each.base_offset <= old.base_offset]
        paths = [path for segment in covered for path in segment.paths]
        if roll.snapshot:
            paths.append(roll.snapshot[0])
        order = f"{self.name}/flush"
        return Flush(log, roll.new.base_offset, covered, paths, order=order)

    def close(self, log: OperatedLog, end_offset: int, snapshot: Snapshot) -> Close | None:
        """The last operation, of a log whose active segment is sealed; None if the files are complete already."""
        segment = self.segments.all[-1]
        memory_only = snapshot or segment.offset_index.tail or segment.time_index.tail or segment.aborted_index.tail
        if not memory_only and not self.outstanding and not self.directory_dirty and self.recovery_point == end_offset:
            return None
        return Close(log, end_offset, self._unflushed(), segment, snapshot)

    def flushed_to(self, offset: int, log_end_offset: int, now_ms: int) -> bool:
        """Everything below an offset is durable. Returns whether the recovery point moves."""
        offset = min(offset, log_end_offset)
        if offset <= self.recovery_point:
            return False
        self.recovery_point = offset
        self.first_unflushed_ms = -1 if offset == log_end_offset else now_ms
        return True

    def _unflushed(self) -> list[Segment]:
        """The closed segments that are not wholly flushed, which are the last ones."""
        closed = islice(reversed(self.segments.all), 1, None)
        return list(takewhile(lambda segment: not segment.flushed, closed))[::-1]

    def counted_when_synced(self, config: TopicConfig) -> list[str]:
        """The files of closed segments that a truncation has to fsync, since what it leaves counts only on disk."""
        return [segment.log_path for segment in self._unflushed()] if config.group_fsync else []

    def _unflushed_paths(self) -> list[str]:
        """The files to fsync before all that is written counts: whole closed segments, and the active one's records."""
        closed = [path for segment in self._unflushed() for path in segment.paths]
        return [*closed, self.segments.all[-1].log_path]
