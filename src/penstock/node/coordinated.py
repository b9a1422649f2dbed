"""A led partition as the log of a coordinator's shard, and the operations that read it.

Positions are looked up on the loop, bytes are read in the lane of the log's directory: a coordinator that loads a large
partition never waits for the disk on the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.errors import ErrorCode, NotResident, PenstockError, RequestError
from penstock.log.disk import Disk, FileSlice, Operation, read_slice
from penstock.log.manager import LogManager, NotOpen
from penstock.log.producer_state import VerificationGuard
from penstock.node.coordinator_host import CoordinatorHost
from penstock.node.effects import Run
from penstock.node.limits import COORDINATOR_LOAD_BYTES
from penstock.records.batch import read_header
from penstock.replication.appends import ACKS_ALL, Prepared
from penstock.replication.partition import Partition

if TYPE_CHECKING:
    from collections.abc import Sequence


Done = Callable[[bytes | None, int], None]


class LedPartition:
    """A `PartitionLog` over a partition that this node leads.

    `coordinator`: its name, for messages. `lost` is called if the leadership ends while a commit is awaited.
    """

    def __init__(
        self, host: CoordinatorHost, coordinator: str, partition: Partition, lost: Callable[[int], None]
    ) -> None:
        self._scheduler = host.scheduler
        self._replicas = host.replicas
        self._logs = host.logs
        self._coordinator = coordinator
        self._partition = partition
        self._lost = lost

    @property
    def partition(self) -> Partition:
        return self._partition

    @property
    def leader_epoch(self) -> int:
        return self._partition.leader_epoch

    @property
    def max_batch_bytes(self) -> int:
        return self._partition.log.config.max_message_bytes

    @property
    def log_start_offset(self) -> int:
        return self._partition.log.log_start_offset

    @property
    def high_watermark(self) -> int:
        return self._partition.high_watermark

    @property
    def end_offset(self) -> int:
        return self._partition.log.reserved_end_offset

    def append(
        self, batch: bytearray, now_ms: int, *, guard: VerificationGuard | None = None, transaction_version: int = 0
    ) -> int:
        self._use_open(now_ms)
        appended = self._partition.append_as_coordinator(
            batch, read_header(batch), now_ms, guard=guard, transaction_version=transaction_version
        )
        return appended.next_offset

    def guard(self, producer_id: int, producer_epoch: int, now_ms: int, *, adds: bool) -> VerificationGuard | None:
        self._use_open(now_ms)
        return self._partition.log.producers.guard(producer_id, producer_epoch, adds=adds)

    def _use_open(self, now_ms: int) -> None:
        """As `_use`, but what a closed log is used for has to come again: RequestError COORDINATOR_LOAD_IN_PROGRESS."""
        try:
            self._use(now_ms)
        except NotOpen as missing:
            raise RequestError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{missing}, and is being opened") from None

    def _use(self, now_ms: int) -> None:
        """Makes sure that the log is open and this broker still leads. Raises NotOpen or RequestError."""
        found = self._replicas.leader(self._partition.topic, self._partition.index, now_ms, patient=True)
        if found is not self._partition:
            code = found if isinstance(found, ErrorCode) else ErrorCode.NOT_LEADER_OR_FOLLOWER
            raise RequestError(code, "this broker does not lead the partition any more")

    def wait(self, offset: int, committed: Callable[[int], None], now_ms: int) -> None:
        self._partition.wait(Prepared(offset, offset, -1), ACKS_ALL, self, committed, now_ms)

    def appended(self, slot: Any, code: ErrorCode, now_ms: int) -> None:
        """AppendWaiter: committed, even if too few replicas are in sync by now, or the leadership is lost."""
        if code in (ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND):
            slot(now_ms)
        else:
            self._lost(now_ms)

    def broke(self, error: Exception, now_ms: int) -> None:
        """AppendWaiter: reports a bug at a commit; the next commit completes what waits for this one."""
        self._scheduler.bug(self._coordinator, f"a commit in {self._partition!r}", error)

    def read(self, offset: int, done: Done, now_ms: int) -> None:
        try:
            self._use(now_ms)
            log = self._partition.log
            found = log.read(offset, COORDINATOR_LOAD_BYTES, log.log_end_offset)
        except NotOpen as closed:
            self._scheduler.when_open(closed, lambda at_ms: self.read(offset, done, at_ms))
        except NotResident as missing:
            piece = FileSlice(missing.directory, missing.path, missing.position, missing.length)
            self._run([piece], lambda data, at_ms: self._read_again(data, offset, done, at_ms))
        except PenstockError:
            self._scheduler.do(later(done, lambda: self._scheduler.now_ms))
        except Exception as error:
            self._scheduler.do(later(done, lambda: self._scheduler.now_ms))
            self._scheduler.bug(self._coordinator, f"reading {self._partition!r}", error)
        else:
            self._run(found.slices, done)

    def _read_again(self, data: bytes | None, offset: int, done: Done, now_ms: int) -> None:
        if data is None:
            done(None, now_ms)
        else:
            self.read(offset, done, now_ms)

    def _run(self, pieces: Sequence[FileSlice], done: Done) -> None:
        directory = self._partition.log.disk.directory
        order = f"load {self._partition.topic}-{self._partition.index}"
        self._scheduler.emit(Run(ReadPieces(directory, order, PiecesRead(self._logs, done), pieces)))


def later(done: Done, now: Callable[[], int]) -> Any:
    """Reports, in a later step, that nothing could be read."""
    done(None, now())
    yield


class ReadPieces(Operation):
    """Reads ranges of files into one piece of memory."""

    __slots__ = ("pieces",)

    def __init__(self, directory: int, order: str, owner: PiecesRead, pieces: Sequence[FileSlice]) -> None:
        super().__init__(directory, order, owner)
        self.pieces = pieces

    def run(self, disk: Disk) -> Any:
        return b"".join(read_slice(disk, piece) for piece in self.pieces)


class PiecesRead:
    """Owner of a `ReadPieces`."""

    __slots__ = ("_done", "_logs")

    def __init__(self, logs: LogManager, done: Done) -> None:
        self._logs = logs
        self._done = done

    def operation_completed(self, operation: Operation, result: Any, now_ms: int) -> None:
        self._done(result, now_ms)

    def operation_failed(self, operation: Operation, error: OSError, now_ms: int) -> None:
        assert isinstance(operation, ReadPieces)
        self._logs.read_failed(operation.directory, error, now_ms)
        self._done(None, now_ms)

    def operation_broke(self, operation: Operation, error: Exception, now_ms: int) -> None:
        """A bug while reading, or in `done`, which is then called with None."""
        self._done(None, now_ms)
