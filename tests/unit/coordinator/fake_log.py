"""A partition of a coordinator's topic that commits, refuses and loses its leader when it is told to."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

from penstock.errors import ErrorCode, RequestError
from penstock.log.loading import marker_of
from penstock.log.producer_state import Origin, ProducerState, VerificationGuard
from penstock.records.batch import read_entry

BASE_OFFSET = Struct(">q")

Read = Callable[[bytes | None, int], None]


class FakeLog:
    """A `PartitionLog`, and beyond that what a test does to it.

    Attributes:
        producers: what it knows of producers, by which it checks their batches as a log does.
        batches: as they were appended. refuses: the error that appends are refused with, or None.
        unreadable: so many of the next reads fail. written_offset: what is after it cannot be read yet; None: all can.
    """

    def __init__(self, *, max_batch_bytes: int = 1 << 20) -> None:
        self.batches: list[bytes] = []
        self.leader_epoch = 0
        self.max_batch_bytes = max_batch_bytes
        self.log_start_offset = 0
        self.high_watermark = 0
        self.end_offset = 0
        self.producers = ProducerState()
        self.refuses: ErrorCode | None = None
        self.unreadable = 0
        self.written_offset: int | None = None
        self.read_bytes = 1 << 20
        self._reads: list[tuple[int, Read]] = []
        self._waiting: list[tuple[int, Callable[[int], None]]] = []

    # As a PartitionLog

    def append(
        self, batch: bytearray, now_ms: int, *, guard: VerificationGuard | None = None, transaction_version: int = 0
    ) -> int:
        if self.refuses is not None:
            raise RequestError(self.refuses, "as the test wants it")
        assert len(batch) <= self.max_batch_bytes
        header = read_entry(batch)
        self.producers.check_coordinated(header, guard, transaction_version)
        self._account(batch, Origin.COORDINATOR)
        BASE_OFFSET.pack_into(batch, 0, self.end_offset)
        self.batches.append(bytes(batch))
        self.end_offset = read_entry(batch).next_offset
        return self.end_offset

    def _account(self, batch: bytes | bytearray, origin: Origin) -> None:
        header = read_entry(batch)
        if header.producer_id >= 0:
            marker = marker_of(batch, header) if header.is_control else None
            self.producers.reserve(header, self.end_offset, origin, marker)

    def guard(self, producer_id: int, producer_epoch: int, now_ms: int, *, adds: bool) -> VerificationGuard | None:
        return self.producers.guard(producer_id, producer_epoch, adds=adds)

    def wait(self, offset: int, committed: Callable[[int], None], now_ms: int) -> None:
        if self.high_watermark >= offset:
            committed(now_ms)
        else:
            self._waiting.append((offset, committed))

    def read(self, offset: int, done: Read, now_ms: int) -> None:
        self._reads.append((offset, done))

    # As the test's

    def give_reads(self, now_ms: int) -> bool:
        """Answers the reads that wait. Returns whether there were any."""
        reads, self._reads = self._reads, []
        for offset, done in reads:
            fails = self.unreadable > 0
            self.unreadable -= fails
            done(None if fails else self._data(offset), now_ms)
        return bool(reads)

    def _data(self, offset: int) -> bytes:
        data = b""
        written = self.end_offset if self.written_offset is None else self.written_offset
        for batch in self.batches:
            wanted = offset < read_entry(batch).next_offset <= written
            if wanted and (not data or len(data) + len(batch) <= self.read_bytes):
                data += batch
        return data

    def commit(self, now_ms: int, offset: int | None = None) -> bool:
        """The high watermark moves to the end, or to `offset`. Returns whether it has moved."""
        offset = self.end_offset if offset is None else offset
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        waiting, self._waiting = self._waiting, []
        for wanted, committed in waiting:
            self.wait(wanted, committed, now_ms)
        return True

    def new_leader(self, *, keep_uncommitted: bool = False) -> None:
        """Another replica leads: what was not committed is lost, or on the way to be committed."""
        self.leader_epoch += 1
        self._waiting.clear()
        self._reads.clear()
        self.refuses = None
        if not keep_uncommitted:
            self.batches = [batch for batch in self.batches if read_entry(batch).next_offset <= self.high_watermark]
        end_offset = self.end_offset if keep_uncommitted else self.high_watermark
        self.producers = ProducerState()
        for batch in self.batches:
            self.end_offset = read_entry(batch).base_offset
            self._account(batch, Origin.REPLICATION)
        self.end_offset = end_offset

    def write(self, batch: bytes | bytearray) -> None:
        """Appends what another broker wrote."""
        header = read_entry(batch)
        guard = self.producers.guard(header.producer_id, header.producer_epoch) if header.producer_id >= 0 else None
        self.append(bytearray(batch), 0, guard=guard)
        self.high_watermark = self.end_offset
