"""The part of a move that copies closed segments as whole files (see `node.moves`, `log.segment_copies`).

Begins when the future log, just opened, ends where a closed segment of the log in use begins, and there is enough of
those: the future log closes, the segments are copied one after the other, piece by piece under the throttle for moves,
and it opens again with them. What is left goes batch by batch, as for any follower. Where the cleaner has put segments
together, so that none begins there any more, batches are copied until one does, or to the end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.log.directory_operations import ReadBytes
from penstock.log.disk import FileSlice
from penstock.log.log import Log
from penstock.log.manager import LogManager
from penstock.log.replica import State
from penstock.log.segment_copies import (
    SNAPSHOT_MAX_BYTES,
    FileToCopy,
    PlaceSegment,
    SegmentToCopy,
    WriteCopy,
    closed_segment_at,
    segment_to_copy,
)
from penstock.node.limits import MOVE_FILE_TRIES_MAX, MOVE_FILES_MIN_BYTES, MOVE_READ_BYTES, THROTTLED_LOOK_MS
from penstock.node.scheduler import Scheduler
from penstock.node.throttles import ReplicationThrottles

if TYPE_CHECKING:
    from penstock.log.moving import Moving

Key = tuple[str, int]


class SegmentMove:
    """What of one move is copied as files.

    Attributes:
        end_offset: of what was copied; None while there is nothing.
        segment: the one that is being copied, and its `files` that are left; `done`, those that are copied.
        source, generation: the log in use, and its generation when this began: what was copied is a beginning of it.
        position: in the first of the files. busy: an operation is under way. tries: segments begun in vain.
        throttled: a timer is set.
    """

    __slots__ = (
        "busy", "done", "end_offset", "files", "generation", "position", "segment", "source", "throttled", "tries",
    )  # fmt: skip

    def __init__(self, end_offset: int | None, source: Log) -> None:
        self.end_offset = end_offset
        self.source = source
        self.generation = source.generation
        self.throttled = False
        self.segment: SegmentToCopy | None = None
        self.files: deque[FileToCopy] = deque()
        self.done: list[str] = []
        self.position = 0
        self.busy = False
        self.tries = 0


class SegmentMoves:
    """Copies closed segments for the moves of a node. `want(key)` has the step of a move done, `broke(key)` ends it."""

    def __init__(
        self,
        scheduler: Scheduler,
        logs: LogManager,
        throttles: ReplicationThrottles,
        *,
        want: Callable[[Key], None],
        broke: Callable[[Key, int], None],
    ) -> None:
        self._scheduler = scheduler
        self._logs = logs
        self._throttles = throttles
        self._want = want
        self._broke = broke
        self._moves: dict[Key, SegmentMove] = {}
        self._given_up: set[Key] = set()

    @property
    def _moving(self) -> Moving:
        return self._logs.moving

    def copies(self, key: Key) -> bool:
        """Whether segments of this replica are being copied: its future log is closed, or about to."""
        return key in self._moves

    def end_offset(self, key: Key) -> int | None:
        """The end of what was copied of a replica whose segments are being copied; None for others."""
        move = self._moves.get(key)
        return (move.end_offset or 0) if move is not None else None

    def begin(self, key: Key, future_log: Log, source: Log, now_ms: int) -> bool:
        """Begins if there is enough to copy as files, and the future log is a beginning of the log in use."""
        if key in self._given_up or not is_beginning(future_log, source):
            return False
        offset = future_log.log_end_offset if future_log.segments.all else None
        size_bytes = 0
        while (place := closed_segment_at(source, offset)) is not None:
            size_bytes += place[0].size_bytes
            offset = place[1]
            if size_bytes >= MOVE_FILES_MIN_BYTES:
                break
        else:
            return False
        self._moves[key] = SegmentMove(future_log.log_end_offset if future_log.segments.all else None, source)
        self._moving.freeze(self._logs.table.futures[key], lambda _: self._want(key), now_ms)
        return True

    def forget(self, key: Key) -> None:
        """The move has ended."""
        self._moves.pop(key, None)
        self._given_up.discard(key)

    def step(self, key: Key, now_ms: int) -> None:
        """Continues as far as it can without waiting. Raises NotOpen, StorageError."""
        move, future = self._moves[key], self._logs.table.futures[key]
        if future.frozen is None:  # there was no room to close it
            del self._moves[key]
            self._want(key)
            return
        if move.busy or future.state is not State.CLOSED:
            return
        if move.segment is None and not self._next_segment(key, move, now_ms):
            del self._moves[key]
            self._moving.thaw(future, now_ms)
            self._want(key)
            return
        if move.files:
            self._read(key, move, now_ms)
        elif self._has_changed(key, move, now_ms):
            self._look_again(key, move)
        else:
            assert move.segment is not None
            move.busy = True
            outbox = self._logs.outbox
            place = PlaceSegment(future, outbox, move.done, move.segment.leader_epochs, move)
            placed, broke, no_room = (partial(each, key) for each in (self._placed, self._break, self._no_room))
            outbox.emit(place, placed, broke=broke, no_room=no_room)

    def _has_changed(self, key: Key, move: SegmentMove, now_ms: int) -> bool:
        """Whether the log was truncated, so that a file that was read piece by piece may be of two minds."""
        source = self._logs.log(*key, now_ms)
        return source is not move.source or source.generation != move.generation or source.truncating

    def _look_again(self, key: Key, move: SegmentMove) -> None:
        """The cleaner, retention or a truncation has changed what is being copied."""
        move.segment = None
        move.tries += 1
        self._want(key)

    def _next_segment(self, key: Key, move: SegmentMove, now_ms: int) -> bool:
        if move.tries >= MOVE_FILE_TRIES_MAX:
            self._given_up.add(key)
            return False
        if self._has_changed(key, move, now_ms):  # what was copied may not be in it any more
            return False
        segment = segment_to_copy(move.source, move.end_offset)
        if segment is None:
            return False
        move.segment, move.files, move.done, move.position = segment, deque(segment.files), [], 0
        return True

    def _read(self, key: Key, move: SegmentMove, now_ms: int) -> None:
        throttle = self._throttles.moves
        if throttle.exceeded(now_ms):
            if not move.throttled:
                move.throttled = True
                at_ms = min(max(throttle.free_at_ms(now_ms), now_ms + 1), now_ms + THROTTLED_LOOK_MS)
                self._scheduler.timers.at(at_ms, partial(self._wait_over, key, move), duty=True)
            return
        assert move.segment is not None
        file = move.files[0]
        path = f"{key[0]}-{key[1]}/{file.name}"
        length = SNAPSHOT_MAX_BYTES
        if file.size_bytes is not None:
            length = min(MOVE_READ_BYTES, file.size_bytes - move.position)
        directory = self._logs.directory_of(*key).index
        piece = FileSlice(directory, path, move.position, length, move.segment.names_version)
        move.busy = True
        read = ReadBytes(piece, self._logs.outbox, move, is_data=True)
        self._logs.outbox.emit(read, partial(self._was_read, key), broke=partial(self._break, key))

    def _wait_over(self, key: Key, move: SegmentMove, now_ms: int) -> None:
        move.throttled = False
        self._want(key)

    def _was_read(self, key: Key, operation: ReadBytes, result: bytes | None, now_ms: int) -> None:
        move = self._taken_up(key, operation.reader)
        if move is None or self._logs.table.stopping:
            return
        file, future = move.files[0], self._logs.table.futures[key]
        if result is None and file.size_bytes is None:  # there is no snapshot of it
            move.files.popleft()
        elif result is None or (file.size_bytes is not None and len(result) != operation.piece.length):
            self._look_again(key, move)
            return
        else:
            move.busy = True
            write = WriteCopy(future, self._logs.outbox, (file.name, move.position), result, move)
            written, broke, no_room = (partial(each, key) for each in (self._was_written, self._break, self._no_room))
            self._logs.outbox.emit(write, written, broke=broke, no_room=no_room)
            return
        self._want(key)

    def _was_written(self, key: Key, operation: WriteCopy, result: None, now_ms: int) -> None:
        self._throttles.moves.record(len(operation.data), now_ms)
        directory = self._logs.table.directories[operation.directory]
        directory.space.written_bytes += len(operation.data)
        self._logs.spaces.written(directory)
        move = self._taken_up(key, operation.reader)
        if move is None:
            return
        move.position += len(operation.data)
        file = move.files[0]
        if file.size_bytes is None or move.position >= file.size_bytes:
            move.done.append(move.files.popleft().name)
            move.position = 0
        self._want(key)

    def _placed(self, key: Key, operation: PlaceSegment, result: None, now_ms: int) -> None:
        move = self._taken_up(key, operation.reader)
        if move is None:
            return
        assert move.segment is not None
        future = self._logs.table.futures[key]
        future.size_bytes = (future.size_bytes or 0) + move.segment.size_bytes
        move.end_offset, move.segment = move.segment.end_offset, None
        self._moving.note_copied(future, move.end_offset)
        self._want(key)

    def _no_room(self, key: Key, operation: WriteCopy | PlaceSegment, now_ms: int) -> None:
        """The target is full, and `node.moves` waits. Then a piece is written again at its place; a segment that could
        not get its names is copied again, since some of its files may have theirs.
        """
        move = self._taken_up(key, operation.reader)
        if move is not None:
            if isinstance(operation, PlaceSegment):
                move.segment = None
            self._want(key)

    def _taken_up(self, key: Key, reader: Any) -> SegmentMove | None:
        """The move whose operation has ended, if it is still under way."""
        move = self._moves.get(key)
        if move is None or move is not reader:
            return None
        move.busy = False
        return move

    def _break(self, key: Key, operation: object, error: Exception, now_ms: int) -> None:
        self._broke(key, now_ms)


def is_beginning(future_log: Log, source: Log) -> bool:
    """Whether all that is in the future log is in the log in use, by the leader epochs of both.

    Where the log in use was truncated since, the follower finds that out with its next fetch.
    """
    if not future_log.segments.all:
        return True
    latest = future_log.leader_epochs.latest
    if latest < 0:
        return False
    epoch, end_offset = source.leader_epochs.end_offset_for(latest, source.log_end_offset)
    return epoch == latest and end_offset >= future_log.log_end_offset
