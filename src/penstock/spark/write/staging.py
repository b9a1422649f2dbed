"""What a task of the transactional sink makes of its rows: record batches, compressed and whole but for their producer.

A task does not know which producer will send its rows, for that is decided by the driver's commit. So it builds batches
without a producer, one after the other in one run of bytes, and says where each begins (`StagedBatch`). Their own CRCs
prove them later. Nothing here reads or writes files: see `staged_files`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from penstock.records.batch import Buffer
from penstock.records.builder import BatchBuilder, HeaderPairs
from penstock.records.compression import Codec, Contexts
from penstock.records.partitioner import partition_for_key
from penstock.spark.write.rows import Row, SinkError

RECORD_FRAME_BYTES_MAX = 32
"""What a record without headers has beside its key and value: attributes, a count, five numbers of at most 5 bytes, and
the difference of its time, 0 here."""


@dataclass(frozen=True, slots=True)
class StagedBatch:
    """Where a record batch lies in the bytes of its task, for which partition it is, and how many records it has."""

    partition: int
    position: int
    size_bytes: int
    records: int


@dataclass(frozen=True, slots=True)
class Staged:
    """The rows of one task, ready to be sent: in the file `path`, or, where they are few, in `content`.

    Attributes:
        query: of which streaming query, or which write.
        batch: the number of its microbatch; None of a write.
    """

    query: str
    batch: int | None
    batches: tuple[StagedBatch, ...] = ()
    content: bytes = field(default=b"", repr=False)
    path: str | None = None

    @property
    def records(self) -> int:
        """How many records there are."""
        return sum(each.records for each in self.batches)


@dataclass(frozen=True, slots=True)
class StagingPlan:
    """How rows become batches: the partitions of the topic, and what a producer calls compression and batch size."""

    topic: str
    partitions: int
    codec: Codec
    level: int | None
    batch_bytes: int


class Stager:
    """Builds the batches of one task.

    Keys choose partitions as Kafka's producers do; rows without a key stay in one partition until its batch is full.

    Args:
        plan: how.
        write: takes the bytes of each batch that is finished, in order.
        first_partition: where rows without a key begin; tasks differ in it.
        now_ms: the time of rows that have none.
    """

    def __init__(self, plan: StagingPlan, write: Callable[[Buffer], object], first_partition: int, now_ms: int) -> None:
        self._plan = plan
        self._write = write
        self._sticky = first_partition % plan.partitions
        self._now_ms = now_ms
        self._builders: dict[int, BatchBuilder] = {}
        self._contexts = Contexts()
        self._position = 0
        self._batches: list[StagedBatch] = []

    def add(self, rows: Row) -> None:
        """Takes rows. Raises SinkError for a partition that the topic does not have."""
        columns = (rows.values, rows.keys, rows.partitions, rows.timestamps_ms, rows.headers)
        for value, key, asked, timestamp_ms, headers in zip(*columns, strict=False):
            self._add(self._partition_of(key, asked), timestamp_ms or self._now_ms, key, value, headers or ())

    def add_keyed(self, partitions: Sequence[int], keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Takes rows that have a key each and nothing else, and whose partitions are known: as `add`, for less."""
        some: dict[int, list[tuple[bytes, bytes | None]]] = {}
        for partition, key, value in zip(partitions, keys, values, strict=True):
            some.setdefault(partition, []).append((key, value))
        for partition, pairs in some.items():
            self._add_pairs(partition, pairs)

    def finish(self) -> tuple[StagedBatch, ...]:
        """Ends the batches that are not full, and tells of all."""
        for partition in list(self._builders):
            self._end(partition)
        return tuple(self._batches)

    def _partition_of(self, key: bytes | None, asked: int) -> int:
        if asked == -1:
            return self._sticky if key is None else partition_for_key(key, self._plan.partitions)
        if not 0 <= asked < self._plan.partitions:
            last = self._plan.partitions - 1
            raise SinkError(
                f"topic {self._plan.topic} has partitions 0 to {last}; a row's column `partition` is {asked}"
            )
        return asked

    def _add(
        self, partition: int, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: HeaderPairs
    ) -> None:
        builder = self._builder(partition)
        builder.append(timestamp_ms, key, value, headers)
        self._end_if_full(partition, builder)

    def _add_pairs(self, partition: int, pairs: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Adds keys and values, as many at a time as surely fit into a batch, or one."""
        ends = list(accumulate(len(key) + len(value or b"") + RECORD_FRAME_BYTES_MAX for key, value in pairs))
        start = taken_bytes = 0
        while start < len(pairs):
            builder = self._builder(partition)
            room = self._plan.batch_bytes - builder.size_bytes
            end = max(start + 1, bisect_right(ends, taken_bytes + room))
            builder.append_all(self._now_ms, pairs[start:end])
            start, taken_bytes = end, ends[end - 1]
            self._end_if_full(partition, builder)

    def _builder(self, partition: int) -> BatchBuilder:
        builder = self._builders.get(partition)
        if builder is None:
            builder = self._builders[partition] = BatchBuilder(
                codec=self._plan.codec, level=self._plan.level, contexts=self._contexts
            )
        return builder

    def _end_if_full(self, partition: int, builder: BatchBuilder) -> None:
        if builder.size_bytes >= self._plan.batch_bytes:
            self._end(partition)
            if partition == self._sticky:
                self._sticky = (self._sticky + 1) % self._plan.partitions

    def _end(self, partition: int) -> None:
        builder = self._builders.pop(partition)
        batch = builder.build()
        self._write(batch)
        self._batches.append(StagedBatch(partition, self._position, len(batch), builder.record_count))
        self._position += len(batch)
