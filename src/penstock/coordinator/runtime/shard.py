"""One partition of a coordinator's topic: the open batch, operations that wait for commits, and reverts.

States: LOADING (the log is replayed), ACTIVE, FAILED (it could not be loaded, or it cannot be trusted), CLOSED.

A batch is open from the first record to the `flush` at the end of the loop's turn, or when the linger is over, or when
it is full. Its records are in the machine's state already. `written_offset` is where the state is: after all records,
those of the open batch included; the timeline keeps a snapshot at the start of each batch that is not committed, so a
batch that is refused reverts to its own start. `committed_offset` follows the batches that were committed.

An operation without records waits for what is written before it, so no client sees a state that may be reverted.

Records of a producer's transaction have a batch of their own, which is appended at once: its header names the producer.
The marker that ends a transaction is appended and replayed in the same way, after what is open (Kafka's
scheduleTransactionalWriteOperation and scheduleTransactionCompletion).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from enum import Enum
from functools import partial
from itertools import chain
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from penstock.coordinator.runtime.partition_log import PartitionLog
from penstock.coordinator.runtime.result import CoordinatorRecord, Encoded, RecordRun, Result
from penstock.coordinator.runtime.timers import ShardTimers
from penstock.coordinator.runtime.transactions import Transaction, TransactionEnd
from penstock.errors import ErrorCode, PenstockError, Report, RequestError
from penstock.metadata.timeline import Timeline
from penstock.protocol.record_frames import encode_coordinator_key, encode_coordinator_value
from penstock.records.batch import HEADER_BYTES
from penstock.records.builder import BatchBuilder
from penstock.records.control import ControlType, EndTransactionMarker, end_transaction_marker
from penstock.records.wall import WallTime

RECORD_OVERHEAD_BYTES = 32
"""More than what a record adds to its key and value."""
NO_PRODUCER = (-1, -1)

Done = Callable[[Any, ErrorCode, str, int], None]
"""`done(response, code, message, now_ms)`, once: a response and NONE, or None and why not."""


Stored = tuple[bytes, tuple[int, bytes]]
"""A record as it is stored: its key, and its offset and value."""


class ShardState(Enum):
    """See the module's head."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


class Machine(Protocol):
    """A coordinator's state machine for one partition.

    Its replicated state is in maps of `timeline` and changes only in `replay`. Operations are functions of the machine
    that change nothing replicated and return a Result.

    Attributes:
        last_wins: types of keys for which only the last record counts, if no other type is in between.
    """

    timeline: Timeline
    last_wins: ClassVar[frozenset[int]]

    def replay(self, record: CoordinatorRecord, offset: int, producer: tuple[int, int]) -> None:
        """Applies a record. `producer` is (id, epoch) of a transactional batch, else (-1, -1)."""
        ...

    def replay_stored(self, records: Sequence[Stored]) -> int:
        """Applies records of types in `last_wins` as they are stored, from the first on, and returns how many. The one
        after them, if any, does not have the usual form, and is to be decoded for `replay`.
        """
        ...

    def replay_end_marker(self, producer: tuple[int, int], committed: bool, offset: int) -> None:
        """A transaction of the producer has ended in this partition."""
        ...

    def loaded(self, now_ms: int) -> None:
        """The whole log is replayed: sets the timers that its state requires."""
        ...

    def unloaded(self, now_ms: int) -> None:
        """Ends what waits here with NOT_COORDINATOR: this node is no longer the coordinator."""
        ...

    def expired(self, key: Hashable, now_ms: int) -> Result[Any]:
        """A timer of the machine is due."""
        ...


M = TypeVar("M", bound=Machine)


class PendingWrite:
    """An operation whose records are not committed yet, and the functions to call when they are."""

    __slots__ = ("appended", "done", "response")

    def __init__(self, response: Any, done: Done | None, appended: Callable[[ErrorCode, int], None] | None) -> None:
        self.response = response
        self.done = done
        self.appended = appended

    @property
    def finished(self) -> bool:
        """Whether nobody waits any more."""
        return self.done is None and self.appended is None

    def complete(self, code: ErrorCode, message: str, now_ms: int, report: Report) -> None:
        """Ends it, once; a second call does nothing. Records that are late may still be committed.

        Exceptions of the functions called go to `report`: others wait for the same commit.
        """
        done, self.done = self.done, None
        appended, self.appended = self.appended, None
        response, self.response = self.response, None
        if appended is not None and not tell(report, appended, code, now_ms):
            code = code or ErrorCode.UNKNOWN_SERVER_ERROR
        if done is not None and (code or response is not None):
            tell(report, done, None if code else response, code, message, now_ms)

    def time_out(self, now_ms: int, report: Report) -> None:
        """Answers a caller who has waited too long with REQUEST_TIMED_OUT. The records stay in the log."""
        self.complete(ErrorCode.REQUEST_TIMED_OUT, "the records are not replicated in time", now_ms, report)


def tell(report: Report, listener: Callable[..., None], *what: Any) -> bool:
    """Calls `listener(*what)`; an exception goes to `report`. Returns whether there was none."""
    try:
        listener(*what)
    except Exception as error:
        report(f"what {getattr(listener, '__qualname__', listener)} was told", error)
        return False
    return True


class Batch:
    """The records that will be appended next, all of one transaction or of none, and the operations that wait for
    them."""

    __slots__ = ("base_offset", "builder", "max_bytes", "opened_ms", "operations", "transaction")

    def __init__(self, base_offset: int, transaction: Transaction | None, max_bytes: int, now_ms: int) -> None:
        self.base_offset = base_offset
        self.transaction = transaction
        if transaction is None:
            self.builder = BatchBuilder()
        else:
            producer_id, epoch = transaction.producer
            self.builder = BatchBuilder(producer_id=producer_id, producer_epoch=epoch, is_transactional=True)
        self.max_bytes = max_bytes
        self.opened_ms = now_ms
        self.operations: list[PendingWrite] = []

    def has_room(self, size_bytes: int) -> bool:
        return self.builder.size_bytes + size_bytes <= self.max_bytes


class Shard(Generic[M]):
    """See the module's head. The runtime owns it; `machine` and `timers` belong to the coordinator.

    `report` gets errors that should never happen and end one operation. `reload(error, now_ms)` gets those that leave
    the state in doubt: the shard has to be loaded anew.
    """

    def __init__(
        self,
        index: int,
        log: PartitionLog,
        machine: M,
        timers: ShardTimers,
        *,
        wall: WallTime,
        report: Report,
        reload: Callable[[Shard[M], Exception, int], None],
    ) -> None:
        self.index = index
        self.log = log
        self.leader_epoch = log.leader_epoch
        self.machine = machine
        self.timers = timers
        self.wall = wall
        self.state = ShardState.LOADING
        self.written_offset = log.log_start_offset
        self.committed_offset = log.log_start_offset
        self.batch: Batch | None = None
        self._waiting: deque[tuple[int, PendingWrite]] = deque()
        self._report = report
        self._reload = reload

    def __repr__(self) -> str:
        return f"Shard({self.index}, epoch {self.leader_epoch}, {self.state.value}, {self.written_offset})"

    @property
    def is_committed(self) -> bool:
        """Whether the whole state is committed: nothing is open or under way."""
        return self.batch is None and self.committed_offset >= self.written_offset

    # Loading

    def activate(self, committed_offset: int, now_ms: int) -> None:
        """The log is replayed up to `written_offset`; the timeline has a snapshot at `committed_offset` if it is less.

        What is not committed yet will be, or is lost with this leadership.
        """
        self.state = ShardState.ACTIVE
        self.committed_offset = committed_offset
        self.machine.timeline.forget_before(committed_offset)
        self.machine.timeline.snapshot(self.written_offset)
        if committed_offset < self.written_offset:
            self._commit_later(self.written_offset, now_ms)
        self.machine.loaded(now_ms)

    def close(self, state: ShardState, code: ErrorCode, now_ms: int) -> None:
        """Ends the shard: waiting operations get `code`, then the machine is told; timers are cancelled."""
        if self.state in (ShardState.FAILED, ShardState.CLOSED):
            self.state = state
            return
        was, self.state = self.state, state
        operations = [operation for _, operation in self._waiting]
        self._waiting.clear()
        if self.batch is not None:
            operations += self.batch.operations
            self.batch = None
        for operation in operations:
            operation.complete(code, "this broker is not the coordinator any more", now_ms, self._report)
        if was is ShardState.ACTIVE:
            tell(self._report, self.machine.unloaded, now_ms)
        self.timers.cancel_all()  # last: those who were told may have set some

    # Operations

    def check(self) -> None:
        """Raises RequestError unless operations are served: COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR."""
        if self.state is ShardState.LOADING:
            raise RequestError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the coordinator is reading its log")
        if self.state is not ShardState.ACTIVE:
            raise RequestError(ErrorCode.NOT_COORDINATOR, "this broker is not the coordinator")

    def write(
        self, result: Result[Any], done: Done | None, now_ms: int, transaction: Transaction | None = None
    ) -> PendingWrite:
        """Takes the result of an operation. `done` is called when it is committed, with NONE, or with

        - NOT_COORDINATOR: the leadership was lost, and it is not known what became of the records;
        - REQUEST_TIMED_OUT: it takes too long. The records are in the state, and are committed later or lost with it;
        - the error of the append: the records are no longer in the state;
        - UNKNOWN_SERVER_ERROR after a bug: likewise.
        """
        operation = PendingWrite(result.response, done, result.appended)
        if not result.records:
            self._wait(operation, now_ms)
            return operation
        try:
            self._append(result, operation, now_ms, transaction)
        except PenstockError as error:
            operation.complete(error.code, str(error), now_ms, self._report)
        except Exception as error:
            operation.complete(ErrorCode.UNKNOWN_SERVER_ERROR, "", now_ms, self._report)
            self._report(f"records of {self!r}", error)
        return operation

    def _wait(self, operation: PendingWrite, now_ms: int) -> None:
        if self.batch is not None:
            self.batch.operations.append(operation)
        elif self.committed_offset < self.written_offset:
            self._waiting.append((self.written_offset, operation))
        else:
            operation.complete(ErrorCode.NONE, "", now_ms, self._report)

    def _append(
        self, result: Result[Any], operation: PendingWrite, now_ms: int, transaction: Transaction | None
    ) -> None:
        encoded = encode_all(result.records)
        if result.atomic or transaction is not None:
            batch = self._make_room(size_of(encoded), now_ms, transaction)
            self._change(partial(self._take, batch, result.records, result.replay, encoded, now_ms), now_ms)
        else:
            assert not callable(result.replay), "one change of the state stands for all records"
            for record, each in zip(result.records, encoded, strict=True):
                batch = self._make_room(size_of([each]), now_ms)
                self._change(partial(self._take, batch, [record], result.replay, [each], now_ms), now_ms)
        assert self.batch is not None
        self.batch.operations.append(operation)
        if transaction is not None:
            self.flush(now_ms)

    def _take(
        self,
        batch: Batch,
        records: Sequence[CoordinatorRecord],
        replay: bool | Callable[[], None],
        encoded: Sequence[Encoded],
        now_ms: int,
    ) -> None:
        """Adds records to the batch that has room for them, and applies them to the state as `Result.replay` says."""
        if callable(replay):
            replay()
        elif replay and isinstance(records, RecordRun):
            records.replay(self.written_offset)
        elif replay:
            producer = NO_PRODUCER if batch.transaction is None else batch.transaction.producer
            for offset, record in enumerate(records, self.written_offset):
                self.machine.replay(record, offset, producer)
        batch.builder.append_all(self.wall.at(now_ms), encoded)
        self.written_offset += len(encoded)

    def _change(self, change: Callable[[], None], now_ms: int) -> None:
        try:
            change()
        except Exception:
            # A bug. What it has left half done goes, and with it the whole batch.
            batch, self.batch = self.batch, None
            assert batch is not None
            self._refused(batch, RequestError(ErrorCode.UNKNOWN_SERVER_ERROR, ""), now_ms)
            raise

    def _make_room(self, size_bytes: int, now_ms: int, transaction: Transaction | None = None) -> Batch:
        """The open batch if the records fit into it, else a new one. Raises RequestError if they fit into no batch."""
        batch = self.batch
        if batch is not None and batch.transaction is None is transaction and batch.has_room(size_bytes):
            return batch
        max_bytes = self.log.max_batch_bytes
        if size_bytes + HEADER_BYTES > max_bytes:
            raise RequestError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"{size_bytes} bytes of records do not fit into a batch of at most {max_bytes} (max.message.bytes)",
            )
        error = self.flush(now_ms)
        if error is not None:
            raise error  # the operation has looked at a state that is not any more
        assert self.batch is None, "whoever was told of the batch before has written, and this operation does not know"
        self.batch = Batch(self.written_offset, transaction, max_bytes, now_ms)
        return self.batch

    # Appending and committing

    def flush(self, now_ms: int) -> RequestError | None:
        """Appends the open batch. If it is refused, it is reverted; its operations and the caller get the reason."""
        batch, self.batch = self.batch, None
        if batch is None:
            return None
        assert self.state is ShardState.ACTIVE
        if self.log.end_offset != batch.base_offset:
            self.batch = batch
            return self._out_of_step(now_ms)
        try:
            return self._flush(batch, now_ms)
        except Exception:
            self.batch = batch  # whoever waits for it is told when the shard is closed
            raise

    def _flush(self, batch: Batch, now_ms: int) -> RequestError | None:
        guard = None if batch.transaction is None else batch.transaction.guard
        try:
            end_offset = self.log.append(batch.builder.build(), now_ms, guard=guard)
        except PenstockError as refused:
            error = RequestError(refused.code, str(refused))
            self._refused(batch, error, now_ms)
            return error
        assert end_offset == self.written_offset, f"{end_offset} after the batch, {self.written_offset} in the state"
        self.machine.timeline.snapshot(end_offset)
        self._waiting.extend((end_offset, operation) for operation in batch.operations)
        self._commit_later(end_offset, now_ms)
        return None

    def _out_of_step(self, now_ms: int) -> RequestError:
        """Somebody else has written to the partition: what we believe is not what the log says."""
        self.close(ShardState.FAILED, ErrorCode.NOT_COORDINATOR, now_ms)
        return RequestError(ErrorCode.NOT_COORDINATOR, "the partition was written to by another")

    def end_transaction(self, end: TransactionEnd, operation: PendingWrite, now_ms: int) -> None:
        """Appends the marker of a transaction, after what is open, and replays it. `operation` is completed when it is
        committed, or as `write` says.
        """
        try:
            if (error := self.flush(now_ms)) is not None:
                raise error
            if self.log.end_offset != self.written_offset:
                raise self._out_of_step(now_ms)
            batch = end_transaction_marker(
                EndTransactionMarker(ControlType.COMMIT if end.commit else ControlType.ABORT, end.coordinator_epoch),
                producer_id=end.producer_id,
                producer_epoch=end.producer_epoch,
                wall_ms=self.wall.at(now_ms),
            )
            end_offset = self.log.append(batch, now_ms, transaction_version=end.transaction_version)
        except PenstockError as error:
            operation.complete(error.code, str(error), now_ms, self._report)
            return
        self._waiting.append((end_offset, operation))
        self.machine.replay_end_marker((end.producer_id, end.producer_epoch), end.commit, self.written_offset)
        self.written_offset = end_offset
        self.machine.timeline.snapshot(end_offset)
        self._commit_later(end_offset, now_ms)

    def _refused(self, batch: Batch, error: RequestError, now_ms: int) -> None:
        self.machine.timeline.revert_to(batch.base_offset)
        self.written_offset = batch.base_offset
        for operation in batch.operations:
            operation.complete(error.code, error.message, now_ms, self._report)

    def _commit_later(self, offset: int, now_ms: int) -> None:
        self.log.wait(offset, lambda at_ms: self.commit(offset, at_ms), now_ms)

    def commit(self, offset: int, now_ms: int) -> None:
        """The high watermark has reached `offset`: answers the operations before it."""
        if offset <= self.committed_offset or self.state is not ShardState.ACTIVE:
            return
        try:
            self.machine.timeline.forget_before(offset)
        except Exception as error:
            self._reload(self, error, now_ms)
            return
        self.committed_offset = offset
        waiting = self._waiting
        while waiting and waiting[0][0] <= offset:
            waiting.popleft()[1].complete(ErrorCode.NONE, "", now_ms, self._report)


def encode(record: CoordinatorRecord) -> Encoded:
    """Key and value in their stored form."""
    value = None if record.value is None else encode_coordinator_value(record.value, record.version)
    return encode_coordinator_key(record.key), value


def encode_all(records: Sequence[CoordinatorRecord]) -> list[Encoded]:
    """The stored forms of records."""
    return records.encoded() if isinstance(records, RecordRun) else [encode(record) for record in records]


def size_of(encoded: Sequence[Encoded]) -> int:
    """An upper bound for what records add to a batch, in bytes."""
    return RECORD_OVERHEAD_BYTES * len(encoded) + sum(map(len, filter(None, chain.from_iterable(encoded))))


def sizes(records: Sequence[CoordinatorRecord]) -> int:
    """An upper bound for the size of a batch of these records."""
    return HEADER_BYTES + size_of(encode_all(records))
