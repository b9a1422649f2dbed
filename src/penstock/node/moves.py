"""Moves of replicas to other log directories of this node (AlterReplicaLogDirs, KIP-113, KIP-858).

A move is a follower within the node: a `Follower` of the future log, whose leader is the log in use. It gets what a
leader would send, so truncations, a log start that moves, and a start after a crash work as for any follower. The data
is read in the lane of the old directory, MOVE_READ_BYTES at a time, under the throttle for moves. Closed segments are
copied as whole files while the future log is closed (`node.segment_moves`); the follower goes on after them.

    copying -> told -> closing -> finishing -> swapping

Once it has caught up, the controller is told the new directory. (Told after the swap, it could take the replica for
lost if the old directory failed in between.) When the image agrees, the log in use is frozen, the rest is copied, and
the two swap (`penstock.log.moving`). That takes some milliseconds, in which requests for the partition wait.

A few moves run at the same time, the others wait, and so does one whose target is full. After a start they continue
where they were, or, if the cleaner has gone over the log in use since, begin anew.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.errors import ErrorCode, NotResident, PenstockError, StorageError
from penstock.log.directory_operations import ReadBytes
from penstock.log.disk import FileSlice
from penstock.log.limits import SPACE_LOOK_MS
from penstock.log.log import Log
from penstock.log.manager import LogManager, NotOpen
from penstock.log.replica import State as Stored
from penstock.node.assignments import Assignments
from penstock.node.limits import MOVE_READ_BYTES, MOVES_AT_ONCE_MAX, THROTTLED_LOOK_MS
from penstock.node.scheduler import Scheduler
from penstock.node.segment_moves import SegmentMoves
from penstock.node.state import NodeState
from penstock.node.throttles import ReplicationThrottles
from penstock.protocol.messages.fetch_response import EpochEndOffset, PartitionData
from penstock.replication.follower import Follower, Position, State
from penstock.replication.replicas import Replicas

if TYPE_CHECKING:
    from uuid import UUID

    from penstock.log.directory import LogDirectory
    from penstock.log.moving import Moving
    from penstock.metadata.image import PartitionRegistration

logger = logging.getLogger(__name__)

ANY_EPOCH = 2**31 - 1
"""Leader epoch of a move's follower: it takes whatever is in the log in use."""

Key = tuple[str, int]


class Move:
    """The move of one replica.

    Attributes:
        follower: of the future log. target: the directory that the future log is in.
        source: the log in use when it was last read; from `finishing` on the frozen one.
        asked: where the read under way begins, the log, and its generation; None if there is none.
        resumed: its future log was found at the start, and not looked at since.
        closing: the log in use is frozen. finishing: it is closed, too. swapping: the future log is frozen as well.
        close_from_ms: before this it is not frozen again, since there was no room to close it.
    """

    def __init__(self, key: Key, topic_id: UUID, target: LogDirectory, owner: Moves, node_id: int) -> None:
        self.key = key
        self.topic_id = topic_id
        self.target = target
        self.follower = Follower(*key, topic_id, leader_id=node_id, leader_epoch=ANY_EPOCH, owner=owner)
        self.source: Log | None = None
        self.asked: tuple[Position, Log, int] | None = None
        self.resumed = False
        self.closing = False
        self.close_from_ms = 0
        self.finishing = False
        self.swapping = False

    @property
    def name(self) -> str:
        return f"{self.key[0]}-{self.key[1]}"


class Moves:
    """The moves of a node, and the `FollowerOwner` of their followers. See the module's head."""

    def __init__(
        self,
        state: NodeState,
        scheduler: Scheduler,
        logs: LogManager,
        replicas: Replicas,
        *,
        throttles: ReplicationThrottles,
        assignments: Assignments,
    ) -> None:
        self._state = state
        self._scheduler = scheduler
        self._logs = logs
        self._replicas = replicas
        self._throttles = throttles
        self._assignments = assignments
        self._moves: dict[Key, Move] = {}
        self._segments = SegmentMoves(scheduler, logs, throttles, want=self._want_key, broke=self.cancel_key)
        self._due: dict[Key, None] = {}
        self._due_set = False

    def __len__(self) -> int:
        return len(self._moves)

    @property
    def _moving(self) -> Moving:
        return self._logs.moving

    def copied_offset(self, topic: str, index: int) -> int | None:
        """Up to where closed segments are copied, while they are; None when they are not."""
        return self._segments.end_offset((topic, index))

    # Beginning and ending

    def begin(self, topic: str, index: int, topic_id: UUID, target: LogDirectory, now_ms: int) -> None:
        """Begins to move a replica of this node to another directory, instead of any move of it that is under way."""
        key = (topic, index)
        move = self._moves.get(key)
        if move is not None and move.target is target:
            return
        self.cancel(topic, index, now_ms)
        if self._logs.directory_of(topic, index) is not target:
            self._moving.begin(key, topic_id, target)
            self._add(Move(key, topic_id, target, self, self._state.node_id))
            logger.info("%s-%d: moving to log directory %s", topic, index, target.path)

    def cancel_key(self, key: Key, now_ms: int) -> None:
        """Like `cancel`."""
        self.cancel(*key, now_ms)

    def cancel(self, topic: str, index: int, now_ms: int) -> None:
        """Ends a move without a result, if there is one: the replica stays where it is."""
        if self._forget((topic, index)) is not None:
            self._moving.abandon((topic, index), now_ms)
            self._assignments.stays(topic, index)

    def resume(self, now_ms: int) -> None:
        """Continues the moves from before a start; called once the metadata is known, before replicas are created."""
        moving = self._moving
        for key, replica in list(self._logs.table.futures.items()):
            topic = self._state.image.topics_by_name.get(key[0])
            found = topic.partitions[key[1]] if topic is not None and key[1] < len(topic.partitions) else None
            assigned = found is not None and self._state.node_id in found.replicas
            if topic is None or found is None or not assigned:
                moving.abandon(key, now_ms)
            elif self._logs.exists(*key):
                replica.topic_id = topic.id
                moving.remove_copies(key)
                self._resume(key, topic.id, replica.directory)
            elif found.directory(self._state.node_id) == replica.directory.id:
                moving.promote(key, topic.id)

    def _resume(self, key: Key, topic_id: UUID, target: LogDirectory) -> None:
        move = Move(key, topic_id, target, self, self._state.node_id)
        move.resumed = True
        self._add(move)

    def _is_older_than_a_pass(self, move: Move, log: Log) -> bool:
        """Whether the log cleaner may have gone over the log in use since it was copied so far, before the start that
        has resumed the move or while the directory of the copy was away. What it has removed there, delete markers
        among it, is missing from what is still to be copied, and the copy would keep what they were about.
        """
        resumed, move.resumed = move.resumed, False
        replica = self._logs.table.find(*move.key) if resumed else None
        clean_offset = replica.directory.clean_offsets.get(move.key) if replica is not None else None
        return clean_offset is not None and log.log_start_offset < log.log_end_offset < clean_offset

    def directory_failed(self, index: int, now_ms: int) -> None:
        """Cancels moves from and to this directory."""
        for key, move in list(self._moves.items()):
            if move.target.index == index or self._logs.directory_of(*key).index == index:
                self.cancel(*key, now_ms)

    def published(self, topic: str, index: int, now_ms: int) -> None:
        """The image has changed a partition."""
        move = self._moves.get((topic, index))
        if move is not None:
            self._want(move)

    def _add(self, move: Move) -> None:
        self._moves[move.key] = move
        self._replicas.copied[move.name] = partial(self._want, move)
        self._want(move)

    def _forget(self, key: Key) -> Move | None:
        move = self._moves.pop(key, None)
        if move is not None:
            self._segments.forget(key)
            self._replicas.copied.pop(move.name, None)
            if move.follower.log is not None:
                self._replicas.copy_ended(move.follower.log)
            for other in self._active():
                self._want(other)
        return move

    def _active(self) -> list[Move]:
        return [move for move, _ in zip(self._moves.values(), range(MOVES_AT_ONCE_MAX), strict=False)]

    # One step

    def _want_key(self, key: Key) -> None:
        move = self._moves.get(key)
        if move is not None:
            self._want(move)

    def _want(self, move: Move, _now_ms: int = 0) -> None:
        """Looks at the move at the next tick, never inside the event that changed a log."""
        self._due[move.key] = None
        if not self._due_set:
            self._due_set = True
            self._scheduler.timers.at(self._scheduler.now_ms, self._look, duty=True)

    def _look(self, now_ms: int) -> None:
        self._due_set = False
        due, self._due = self._due, {}
        if self._state.stopping:
            return
        active = self._active()
        for key in due:
            move = self._moves.get(key)
            if move is not None and move in active:
                try:
                    self._step(move, now_ms)
                except NotOpen as missing:
                    self._scheduler.when_open(missing, partial(self._want, move))
                except StorageError as error:
                    logger.warning("%s is not moved to %s: %s", move.name, move.target.path, error)
                    self.cancel(*key, now_ms)
                except Exception as error:
                    self.cancel(*key, now_ms)
                    self._scheduler.bug("work", f"moving {move.name} to {move.target.path}", error)

    def _step(self, move: Move, now_ms: int) -> None:
        """Continues as far as it can without waiting. Raises NotOpen, StorageError."""
        follower = move.follower
        if move.asked is not None or move.swapping or (move.closing and not move.finishing):
            return
        if follower.state is State.BROKEN:
            raise StorageError("its future log cannot be written")
        if move.target.space.full:
            self._wait_for_room(move, now_ms)
            return
        if self._segments.copies(move.key):
            self._segments.step(move.key, now_ms)
            return
        log = self._moving.log(move.key, now_ms)
        if self._is_older_than_a_pass(move, log):
            self.cancel(*move.key, now_ms)
            self.begin(*move.key, move.topic_id, move.target, now_ms)
            return
        if follower.log is not log:
            follower.state = State.OPENING
        if not self._begins_with_files(move, log, now_ms):
            self._follow(move, log, now_ms)

    def _begins_with_files(self, move: Move, log: Log, now_ms: int) -> bool:
        """Whether closed segments are copied next. Raises as `_step`."""
        if move.finishing or not (move.follower.ready or move.follower.state is State.OPENING):
            return False
        source = self._logs.log(*move.key, now_ms)
        return not source.truncating and self._segments.begin(move.key, log, source, now_ms)

    def _follow(self, move: Move, log: Log, now_ms: int) -> None:
        """Has the follower of the open future log go on. Raises as `_step`."""
        follower = move.follower
        if follower.state is State.OPENING:
            self._replicas.copy(log, follower)
            follower.opened(log, self._moving.high_watermark(move.key), now_ms)
        if not move.finishing:
            move.source = self._logs.log(*move.key, now_ms)
        source = move.source
        assert source is not None
        if source.truncating:
            return  # told when it has been cut
        if follower.state is State.ASKING:
            follower.leader_offsets(source.log_start_offset, source.log_end_offset, now_ms)
        if follower.ready:
            self._answer(move, source, now_ms)

    def _wait_for_room(self, move: Move, now_ms: int) -> None:
        """The target is full: looks again a little later. Raises StorageError if the log in use is frozen already."""
        if move.closing:
            raise StorageError(f"the log directory {move.target.path} is full")
        self._scheduler.timers.at(now_ms + SPACE_LOOK_MS, partial(self._want, move), duty=True)

    def _answer(self, move: Move, source: Log, now_ms: int) -> None:
        """Answers the follower's next fetch as a leader would."""
        follower, position = move.follower, move.follower.position
        if not source.log_start_offset <= position.fetch_offset:
            self._refuse(move, now_ms)
            return
        if position.last_fetched_epoch >= 0:
            epoch, end_offset = source.leader_epochs.end_offset_for(position.last_fetched_epoch, source.log_end_offset)
            if epoch < 0 or end_offset < 0:
                self._refuse(move, now_ms)
                return
            if epoch < position.last_fetched_epoch or end_offset < position.fetch_offset:
                diverging = EpochEndOffset(epoch=epoch, end_offset=end_offset)
                follower.fetched(position, self._data(move, source, diverging_epoch=diverging), now_ms)
                return
        if position.fetch_offset > source.log_end_offset:
            self._refuse(move, now_ms)
        elif position.fetch_offset == source.log_end_offset:
            follower.fetched(position, self._data(move, source), now_ms)
            self._caught_up(move, now_ms)
        else:
            self._read(move, source, position, now_ms)

    def _refuse(self, move: Move, now_ms: int) -> None:
        """The offset is outside of the log in use: the follower will ask where that log begins and ends."""
        refusal = PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
        move.follower.fetched(move.follower.position, refusal, now_ms)

    def _data(self, move: Move, source: Log, **more: Any) -> PartitionData:
        high_watermark = min(self._logs.high_watermark(*move.key), source.log_end_offset)
        return PartitionData(
            partition_index=move.key[1], high_watermark=high_watermark, log_start_offset=source.log_start_offset, **more
        )

    def _read(self, move: Move, source: Log, position: Position, now_ms: int) -> None:
        """Has the next bytes read, or first an index that is not in memory."""
        throttle = self._throttles.moves
        if throttle.exceeded(now_ms) and not move.finishing:
            at_ms = min(max(throttle.free_at_ms(now_ms), now_ms + 1), now_ms + THROTTLED_LOOK_MS)
            self._scheduler.timers.at(at_ms, partial(self._want, move), duty=True)
            return
        move.asked = (position, source, source.generation)
        outbox = self._logs.outbox
        try:
            found = source.read(position.fetch_offset, MOVE_READ_BYTES)
            (piece,) = found.slices
            read = ReadBytes(piece, outbox, move, is_data=True)
        except NotResident as missing:
            piece = FileSlice(missing.directory, missing.path, missing.position, missing.length)
            read = ReadBytes(piece, outbox, move, is_data=False)
        else:
            if not move.finishing and found.next_offset == source.log_end_offset:
                self._caught_up(move, now_ms)
        outbox.emit(read, self._was_read, broke=self._read_broke)

    def _was_read(self, operation: ReadBytes, result: bytes | None, now_ms: int) -> None:
        move = operation.reader
        assert isinstance(move, Move)
        asked, move.asked = move.asked, None
        if self._moves.get(move.key) is move and asked is not None and not self._state.stopping:
            position, source, generation = asked
            if operation.is_data and result is not None and generation == source.generation and not source.truncating:
                move.follower.fetched(position, self._data(move, source, records=result), now_ms)
            self._want(move)

    def _read_broke(self, operation: ReadBytes, error: Exception, now_ms: int) -> None:
        """Cancels the move after a bug; the requester may ask again."""
        assert isinstance(operation.reader, Move)
        self.cancel(*operation.reader.key, now_ms)

    # FollowerOwner

    def follower_moved(self, follower: Follower, now_ms: int) -> None:
        move = self._moves.get((follower.topic, follower.index))
        if move is not None and move.follower is follower:
            self._want(move)

    def follower_retries(self, follower: Follower, delay_ms: int, now_ms: int) -> None:
        delay_ms = min(delay_ms, self._state.settings.replica_fetch_backoff_ms)
        self._scheduler.timers.at(now_ms + delay_ms, follower.retry, duty=True)

    def follower_wrote(self, follower: Follower, size_bytes: int) -> None:
        self._throttles.moves.record(size_bytes, self._scheduler.now_ms)

    def high_watermark_moved(self, follower: Follower) -> None:
        self._moving.note_high_watermark((follower.topic, follower.index), follower.high_watermark)

    def follower_failed(self, follower: Follower, error: Exception) -> None:
        if not isinstance(error, PenstockError):
            self._scheduler.bug("operation", f"records of {follower!r}", error)
        elif follower.failures == 0:
            logger.warning("moving %s-%d: %s", follower.topic, follower.index, error)

    # The end

    def _caught_up(self, move: Move, now_ms: int) -> None:
        """The future log has everything, or will have with the read under way, though more may arrive at any time.

        Has the next step done: the controller is told, the log in use is frozen, or the logs swap.
        """
        main = self._logs.table.find(*move.key)
        future = self._logs.table.futures[move.key]
        assert main is not None
        if move.finishing:
            move.swapping = True
            self._moving.freeze(future, partial(self._log_closed, move.key), now_ms)
        elif not self._is_told(move):
            assert move.target.id is not None, "a directory to which something moves has an id"
            self._assignments.moves_to(*move.key, move.target.id)
        elif main.state is Stored.OPEN and now_ms >= move.close_from_ms:
            move.closing = True
            self._moving.freeze(main, partial(self._log_closed, move.key), now_ms)

    def _is_told(self, move: Move) -> bool:
        registration = self._registration(move.key)
        return registration is not None and registration.directory(self._state.node_id) == move.target.id

    def _registration(self, key: Key) -> PartitionRegistration | None:
        return self._state.image.partition(*key)

    def _log_closed(self, key: Key, now_ms: int) -> None:
        """A frozen log has closed; or it is open again, since there was no room for what that writes."""
        move = self._moves.get(key)
        if move is None or self._state.stopping:
            return
        main = self._logs.table.find(*key)
        if move.swapping and self._logs.table.futures[key].frozen is None:
            logger.warning("%s is not moved: the log directory %s is full", move.name, move.target.path)
            self.cancel(*key, now_ms)
        elif main is not None and main.frozen is None:
            move.closing = False
            move.close_from_ms = now_ms + THROTTLED_LOOK_MS
            self._moving.thaw(main, now_ms)
            self._scheduler.timers.at(move.close_from_ms, partial(self._want, move), duty=True)
        elif move.swapping:
            if not self._moving.both_closed(key):
                return  # retention has looked at the one that was closed before; the other is still closing
            self._forget(key)
            self._assignments.moved(*key)
            self._moving.swap(key)
            logger.info("%s: moved to log directory %s", move.name, move.target.path)
        else:
            move.finishing = True
            self._want(move)
