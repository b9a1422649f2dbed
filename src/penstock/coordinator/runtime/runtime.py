"""The shards of one kind of coordinator on this node. See the package's head."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from typing import Any, Generic, TypeVar

from penstock.coordinator.limits import (
    COORDINATOR_TIMER_RETRY_MS,
    COORDINATOR_TIMER_WITH_RECORDS,
    COORDINATOR_TIMERS_PER_TURN,
)
from penstock.coordinator.runtime.loading import Loader
from penstock.coordinator.runtime.partition_log import PartitionLog
from penstock.coordinator.runtime.result import Result
from penstock.coordinator.runtime.shard import Done, Machine, PendingWrite, Shard, ShardState, tell
from penstock.coordinator.runtime.timers import ShardTimers, Timers
from penstock.coordinator.runtime.transactions import Transaction, TransactionEnd
from penstock.errors import ErrorCode, PenstockError, Report, RequestError
from penstock.log.producer_state import VerificationGuard
from penstock.records.wall import WallTime

logger = logging.getLogger(__name__)

M = TypeVar("M", bound=Machine)
R = TypeVar("R")


class Runtime(Generic[M]):
    """See the package's head.

    Args:
        topic: the coordinator's topic, for messages. package: that of its records in the schema (`group`, ...).
        make_machine: makes the state machine of a partition, with its timers.
        do: has the node step through long work. now: the time of the event that the node handles.
        write_timeout_ms: after this long an operation is answered REQUEST_TIMED_OUT; its records stay.
        linger_ms: how long a batch stays open; -1 and 0: to the end of the loop's turn.
        bug: gets errors that should never happen. One ends an operation, or the loading of a shard; the timer that was
            due is set again; a shard whose state is in doubt is loaded anew.
        loaded: called for each shard that is served from now on. wall: for the timestamps of records.
        wake_by: called with a time at which something will be due; what is put off is not told.
    """

    def __init__(
        self,
        topic: str,
        package: str,
        make_machine: Callable[[int, ShardTimers], M],
        *,
        do: Callable[[Iterator[None]], None],
        now: Callable[[], int],
        write_timeout_ms: int,
        linger_ms: int,
        bug: Report,
        loaded: Callable[[Shard[M], int], None] = lambda shard, now_ms: None,
        wall: WallTime | None = None,
        wake_by: Callable[[int], None] = lambda deadline_ms: None,
    ) -> None:
        self.topic = topic
        self.shards: dict[int, Shard[M]] = {}
        self.timers = Timers(wake_by)
        self._wake_by = wake_by
        self.linger_ms = linger_ms
        self.write_timeout_ms = write_timeout_ms
        self._package = package
        self._make_machine = make_machine
        self._do = do
        self._now = now
        self._bug = bug
        self._tell_loaded = loaded
        self._wall = wall or WallTime()
        self._open: dict[int, Shard[M]] = {}
        self._unread: dict[int, tuple[int, Loader]] = {}
        self._timeouts: deque[tuple[int, PendingWrite]] = deque()

    # Leadership

    def elected(self, index: int, log: PartitionLog, now_ms: int) -> None:
        """This node leads the partition, in a new epoch: its state is loaded, whatever was known before."""
        self.resigned(index, now_ms)
        shard = self._new_shard(index, log)
        self._read(shard, Loader(shard, self._package), now_ms)

    def _new_shard(self, index: int, log: PartitionLog) -> Shard[M]:
        timers = self.timers.of(index)
        machine = self._make_machine(index, timers)
        shard = Shard(index, log, machine, timers, wall=self._wall, report=self._bug, reload=self._reload)
        self.shards[index] = shard
        return shard

    def _reload(self, shard: Shard[M], error: Exception, now_ms: int) -> None:
        """A bug has left the state of a shard in doubt: has it loaded from its log again, after a while."""
        if self.shards.get(shard.index) is shard:
            self.resigned(shard.index, now_ms)
            fresh = self._new_shard(shard.index, shard.log)
            self._try_later(fresh, Loader(fresh, self._package), now_ms + COORDINATOR_TIMER_RETRY_MS)
        self._bug(f"the state of {shard!r}", error)

    def resigned(self, index: int, now_ms: int) -> None:
        """This node no longer leads the partition, or its log is lost."""
        shard = self.shards.pop(index, None)
        if shard is not None:
            self._open.pop(index, None)
            self._unread.pop(index, None)
            shard.close(ShardState.CLOSED, ErrorCode.NOT_COORDINATOR, now_ms)

    def _read(self, shard: Shard[M], loader: Loader, now_ms: int) -> None:
        if loader.finished:
            try:
                self._loaded(shard, loader, now_ms)
            except Exception as error:
                self._failed(shard, f"a bug: {error!r}", now_ms)
                self._bug(f"loading {shard!r}", error)
            return

        def done(data: bytes | None, at_ms: int) -> None:
            if shard.state is not ShardState.LOADING:
                return
            if data:
                loader.failed_reads = 0
                self._do(self._replay(shard, loader, data))
            else:
                self._read_later(shard, loader, at_ms)

        shard.log.read(loader.next_offset, done, now_ms)

    def _read_later(self, shard: Shard[M], loader: Loader, now_ms: int) -> None:
        """Retries later: the disk gave no data, or records appended in an earlier term are not written yet."""
        delay_ms = loader.read_failed()
        if delay_ms is None:
            self._failed(shard, f"its log cannot be read at {loader.next_offset}", now_ms)
            return
        self._try_later(shard, loader, now_ms + delay_ms)
        logger.info(
            "coordinator of %s-%d could not read its log at %d, and tries again in %d ms",
            *(self.topic, shard.index, loader.next_offset, delay_ms),
        )

    def _try_later(self, shard: Shard[M], loader: Loader, at_ms: int) -> None:
        self._unread[shard.index] = at_ms, loader
        self._wake_by(at_ms)

    def _read_again(self, now_ms: int) -> None:
        due = [index for index, (deadline_ms, _) in self._unread.items() if deadline_ms <= now_ms]
        for index in due:
            _, loader = self._unread.pop(index)
            self._read(self.shards[index], loader, now_ms)

    def _replay(self, shard: Shard[M], loader: Loader, data: bytes) -> Iterator[None]:
        try:
            for _ in loader.replay(data):
                yield
                if shard.state is not ShardState.LOADING:
                    return
        except PenstockError as error:
            self._failed(shard, str(error), self._now())
            return
        except Exception as error:
            self._failed(shard, f"a bug: {error!r}", self._now())
            self._bug(f"loading {shard!r}", error)
            return
        self._read(shard, loader, self._now())

    def _loaded(self, shard: Shard[M], loader: Loader, now_ms: int) -> None:
        shard.written_offset = shard.log.end_offset
        committed = shard.written_offset if loader.committed_offset is None else loader.committed_offset
        shard.activate(committed, now_ms)
        logger.log(
            logging.INFO if loader.loaded_records else logging.DEBUG,
            "coordinator of %s-%d is loaded: %d records, %d bytes",
            *(self.topic, shard.index, loader.loaded_records, loader.loaded_bytes),
        )
        self._tell_loaded(shard, now_ms)

    def _failed(self, shard: Shard[M], why: str, now_ms: int) -> None:
        logger.error("coordinator of %s-%d cannot be loaded: %s", self.topic, shard.index, why)
        shard.close(ShardState.FAILED, ErrorCode.NOT_COORDINATOR, now_ms)

    # Operations

    def active(self, index: int) -> Shard[M]:
        """The shard. Raises RequestError: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS."""
        shard = self.shards.get(index)
        if shard is None:
            raise RequestError(ErrorCode.NOT_COORDINATOR, f"this broker does not lead {self.topic}-{index}")
        shard.check()
        return shard

    def settled(self, index: int) -> M | None:
        """The machine of a shard whose whole state is committed: an operation on it that writes nothing is answered at
        once. None for any other shard, and where there is none.
        """
        shard = self.shards.get(index)
        if shard is None or shard.state is not ShardState.ACTIVE or not shard.is_committed:
            return None
        return shard.machine

    def guard(
        self, index: int, producer_id: int, producer_epoch: int, now_ms: int, *, adds: bool = False
    ) -> VerificationGuard | None:
        """What is to be taken before a producer's transaction is verified, for the write after that; None if the
        transaction is open in the partition already. Raises as `active` and `PartitionLog.guard`.
        """
        return self.active(index).log.guard(producer_id, producer_epoch, now_ms, adds=adds)

    def write(
        self,
        index: int,
        operation: Callable[[M], Result[Any]],
        done: Done | None,
        now_ms: int,
        *,
        transaction: Transaction | None = None,
    ) -> None:
        """Runs an operation and has its records appended, as part of a transaction if one is given.
        `done(response, code, message, now_ms)` follows, once.

        Errors that the operation or `active` raises are passed to `done` at once; a bug as UNKNOWN_SERVER_ERROR.
        """
        try:
            shard = self.active(index)
            result = operation(shard.machine)
        except PenstockError as error:
            if done is not None:
                tell(self._bug, done, None, error.code, str(error), now_ms)
            return
        except Exception as error:
            if done is not None:
                tell(self._bug, done, None, ErrorCode.UNKNOWN_SERVER_ERROR, "", now_ms)
            self._bug(f"an operation on {self.topic}-{index}", error)
            return
        if result.changes_nothing and shard.is_committed:
            if done is not None and result.response is not None:
                tell(self._bug, done, result.response, ErrorCode.NONE, "", now_ms)
            return
        self._write(shard, result, done, now_ms, transaction)

    def end_transaction(self, index: int, end: TransactionEnd, done: Done, now_ms: int) -> None:
        """Ends a producer's transaction in a partition: its marker is appended and replayed. `done` is called with the
        marker when it is committed, or with the error as in `write`.
        """
        try:
            shard = self.active(index)
        except PenstockError as error:
            tell(self._bug, done, None, error.code, str(error), now_ms)
            return
        operation = PendingWrite(end, done, None)
        try:
            shard.end_transaction(end, operation, now_ms)
        except Exception as error:
            self._reload(shard, error, now_ms)
            operation.complete(ErrorCode.UNKNOWN_SERVER_ERROR, "", now_ms, self._bug)
        self._wait(shard, operation, now_ms)

    def _write(
        self,
        shard: Shard[M],
        result: Result[Any],
        done: Done | None,
        now_ms: int,
        transaction: Transaction | None = None,
    ) -> None:
        self._wait(shard, shard.write(result, done, now_ms, transaction), now_ms)

    def _wait(self, shard: Shard[M], operation: PendingWrite, now_ms: int) -> None:
        """Sees to what an operation has left open: a batch to be flushed, a shard to be loaded again, a time limit."""
        if shard.batch is not None:
            self._open[shard.index] = shard
            if self.linger_ms > 0:
                self._wake_by(shard.batch.opened_ms + self.linger_ms)
        elif shard.state is ShardState.FAILED:
            self._open[shard.index] = shard
        if not operation.finished:
            self._forget_finished()
            self._timeouts.append((now_ms + self.write_timeout_ms, operation))
            self._wake_by(now_ms + self.write_timeout_ms)

    def _forget_finished(self) -> None:
        while self._timeouts and self._timeouts[0][1].finished:
            self._timeouts.popleft()

    def read(self, index: int, operation: Callable[[M, int], R]) -> R:
        """Runs an operation that reads the state as of a committed offset, and returns its result. Raises as `active`
        and the operation do.
        """
        shard = self.active(index)
        return operation(shard.machine, shard.committed_offset)

    def each_active(self) -> Iterator[Shard[M]]:
        """The shards that are loaded, by partition."""
        for index in sorted(self.shards):
            shard = self.shards[index]
            if shard.state is ShardState.ACTIVE:
                yield shard

    # Time

    @property
    def has_open_batches(self) -> bool:
        """Whether `flush` has something to do."""
        return bool(self._open)

    def flush(self, now_ms: int) -> None:
        """Appends the open batches whose linger is over, at the end of a turn."""
        for index, shard in list(self._open.items()):
            batch = shard.batch
            if batch is not None and now_ms < batch.opened_ms + self.linger_ms:
                continue
            del self._open[index]
            try:
                shard.flush(now_ms)
            except Exception as error:
                self._reload(shard, error, now_ms)
            if shard.state is ShardState.FAILED:
                self.elected(index, shard.log, now_ms)

    def tick(self, now_ms: int) -> None:
        """Handles expired requests and timers, and retries failed reads."""
        if self._unread:
            self._read_again(now_ms)
        for _ in range(COORDINATOR_TIMERS_PER_TURN):
            if not self._timeouts or (self._timeouts[0][0] > now_ms and not self._timeouts[0][1].finished):
                break
            self._timeouts.popleft()[1].time_out(now_ms, self._bug)
        left = COORDINATOR_TIMERS_PER_TURN
        while left > 0:
            due = self.timers.due(now_ms)
            if due is None:
                break
            left -= self._expire(*due, now_ms)

    def _expire(self, index: int, key: Hashable, now_ms: int) -> int:
        """Handles a timer that is due. Returns how many timers' work it was; a step of long work is all of a turn's."""
        shard = self.shards[index]
        assert shard.state is ShardState.ACTIVE, f"{shard!r} has timers"

        def done(_: Any, code: ErrorCode, message: str, at_ms: int) -> None:
            if code and shard.state is ShardState.ACTIVE and key not in shard.timers:
                logger.info("the timer %s of %r will be tried again: %s", key, shard, message or code.name)
                shard.timers.set(key, at_ms + COORDINATOR_TIMER_RETRY_MS)

        try:
            result = shard.machine.expired(key, now_ms)
            self._write(shard, result, done, now_ms)
            if result.is_step:
                return COORDINATOR_TIMERS_PER_TURN
            return COORDINATOR_TIMER_WITH_RECORDS if result.records else 1
        except PenstockError as error:
            done(None, error.code, str(error), now_ms)
        except Exception as error:
            done(None, ErrorCode.UNKNOWN_SERVER_ERROR, "a bug", now_ms)
            self._bug(f"timer {key} of {shard!r}", error)
        return 1

    def next_deadline_ms(self) -> int | None:
        """When `tick` or `flush` must be called next."""
        soonest = self.timers.next_deadline_ms()
        if not (self._timeouts or self._unread or self._open):
            return soonest
        deadlines = [] if soonest is None else [soonest]
        if self._timeouts:
            deadlines.append(self._timeouts[0][0])
        deadlines.extend(deadline_ms for deadline_ms, _ in self._unread.values())
        if self.linger_ms > 0:
            deadlines.extend(
                shard.batch.opened_ms + self.linger_ms for shard in self._open.values() if shard.batch is not None
            )
        return min(deadlines, default=None)
