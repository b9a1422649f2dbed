"""How a Spark task reads: fetches in flight on a thread of their own, decoding on the task's thread.

A Python worker runs its task synchronously, so an event loop in the task's own thread would only move while the task
waits for it. The fetching thread keeps the brokers busy while the task decodes and writes; the bounded queue between
them holds the memory down. Several ranges are read side by side, each in its own order.
"""

from __future__ import annotations

import asyncio
import gc
import queue
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import cache
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from penstock.client.client import Client
from penstock.client.security import UNSECURED, ClientSecurity
from penstock.records.arrow_schema import Decoded, timestamps_us
from penstock.spark.lake.records import RECORD_SCHEMA, Gap, TopicPartition
from penstock.spark.limits import SPARK_FETCHES_AHEAD, SPARK_FILE_READ_BYTES, SPARK_RANGES_AT_ONCE
from penstock.spark.read.decoding import BROKEN, Corrupt, broken_header, runs
from penstock.spark.read.files import Reads
from penstock.spark.read.files_segments import Spare
from penstock.spark.read.plan import OffsetRange

SPARK_WORKERS = ("pyspark.daemon", "pyspark.worker")
"""What a process that runs tasks was started as; any other process is not ours to tune."""


@dataclass(frozen=True, slots=True)
class Connect:
    """How a task reaches the records; pickled into it.

    `read` is "broker" (all through the brokers), "files" (closed segments must be reachable as files, or the task
    fails) or "auto" (from files where that is possible). `log_dirs` are paths where log directories of brokers are
    mounted; none: those that the brokers tell, if they are on this host.
    """

    bootstrap: str
    client_id: str
    timeout_ms: int
    isolation: int
    read: str = "auto"
    log_dirs: tuple[str, ...] = ()
    security: ClientSecurity = UNSECURED

    def client(self) -> Client:
        """A client of these brokers."""
        return Client(self.bootstrap, client_id=self.client_id, timeout_ms=self.timeout_ms, security=self.security)


class _Failed:
    """The fetching thread's last word when it failed."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class Fetching:
    """Iterates over (range, position, fetched) of all ranges. A context manager: leaving it ends the thread."""

    def __init__(self, connect: Connect, ranges: Sequence[OffsetRange]) -> None:
        self._connect = connect
        self._ranges = ranges
        self._queue: queue.Queue[Any] = queue.Queue(SPARK_FETCHES_AHEAD)
        self._spare: Spare = deque(maxlen=SPARK_FETCHES_AHEAD)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock-fetching", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        while self._thread.is_alive():
            try:
                self._queue.get(timeout=0.05)  # frees a thread that waits to put
            except queue.Empty:
                continue
        self._thread.join()

    def __iter__(self) -> Iterator[tuple[OffsetRange, int, Any]]:
        while (item := self._queue.get()) is not None:
            if isinstance(item, _Failed):
                raise item.error
            yield item

    def done(self, fetched: Any) -> None:
        """The records have been decoded: the buffer that they were read into can be used again."""
        buffer = fetched.records.obj
        if isinstance(buffer, bytearray) and len(buffer) == SPARK_FILE_READ_BYTES:
            self._spare.append(buffer)

    def _run(self) -> None:
        try:
            asyncio.run(self._fetch_all())
            self._queue.put(None)
        except BaseException as error:
            while isinstance(error, BaseExceptionGroup):  # what the task group makes of one range's error
                error = error.exceptions[0]
            self._queue.put(_Failed(error))

    async def _fetch_all(self) -> None:
        connect = self._connect
        async with connect.client() as client:
            reads = await Reads.begin(
                client,
                self._ranges,
                read=connect.read,
                isolation=connect.isolation,
                log_dirs=connect.log_dirs,
                spare=self._spare,
            )
            try:
                room = asyncio.Semaphore(SPARK_RANGES_AT_ONCE)
                async with asyncio.TaskGroup() as group:
                    for wanted in self._ranges:
                        group.create_task(self._fetch(reads, wanted, room))
            finally:
                reads.close()

    async def _fetch(self, reads: Reads, wanted: OffsetRange, room: asyncio.Semaphore) -> None:
        """Queues what comes of one range."""
        position = wanted.start
        async with room, aclosing(reads.range(wanted)) as items:
            try:
                async for position, fetched in items:
                    if self._stop.is_set():
                        return
                    await self._put((wanted, position, fetched))
            except BROKEN as error:  # bytes that are no batch
                raise broken_header(wanted, position, error) from error

    async def _put(self, item: Any) -> None:
        """Queues without blocking the loop: other fetches go on while the task is busy."""
        if not self._queue.full():
            self._queue.put(item)
            return
        await asyncio.get_running_loop().run_in_executor(None, self._queue.put, item)


def decoded(
    connect: Connect, ranges: Sequence[OffsetRange], *, skip_corrupt: bool = False, include_headers: bool = True
) -> Iterator[tuple[OffsetRange, Decoded | Corrupt]]:
    """All records of the ranges, a fetch at a time, as Arrow columns, with headers if they are wanted.

    Raises CorruptBatchError for a batch that is broken; with `skip_corrupt` its offsets are given as Corrupt instead.
    """
    with Fetching(connect, ranges) as fetching:
        for wanted, position, fetched in fetching:
            for got in runs(
                wanted,
                position,
                fetched,
                isolation=connect.isolation,
                skip_corrupt=skip_corrupt,
                include_headers=include_headers,
            ):
                yield wanted, got
            fetching.done(fetched)
    freeze_loaded()


@cache
def freeze_loaded() -> None:
    """Once a worker of PySpark's: all that is loaded by now stays, and is not looked at again by the full garbage
    collection which the worker runs after every task (60 ms with numba, pandas and pyarrow loaded)."""
    main = sys.modules["__main__"].__spec__
    if main is not None and main.name in SPARK_WORKERS:
        gc.freeze()


def record_batch(wanted: OffsetRange, got: Decoded, names: Sequence[str] = RECORD_SCHEMA.names) -> Any:
    """A decoded run as rows of RECORD_SCHEMA, or of the columns of it that `names` lists; only those are made.

    The run must have headers if the names have.
    """
    rows, columns = got.batch.num_rows, got.batch
    makers: dict[str, Callable[[], Any]] = {
        "topic": lambda: pa.repeat(wanted.topic, rows),
        "topicId": lambda: pa.repeat(str(wanted.topic_id), rows),
        "partition": lambda: pa.repeat(pa.scalar(wanted.partition, pa.int32()), rows),
        "offset": lambda: columns.column("offset"),
        "timestamp": lambda: timestamps_us(columns.column("timestamp")),
        "timestampType": lambda: columns.column("timestamp_type"),
        "key": lambda: columns.column("key"),
        "value": lambda: columns.column("value"),
        "headers": lambda: headers_or_null(columns.column("headers")),
    }
    schema = pa.schema([RECORD_SCHEMA.field(name) for name in names])
    return pa.RecordBatch.from_arrays([makers[name]() for name in names], schema=schema)


def headers_or_null(headers: Any) -> Any:
    """The headers of each row, as RECORD_SCHEMA has them; null, as in the official connector, for a row without any."""
    lists = headers.cast(RECORD_SCHEMA.field("headers").type)
    return pa.ListArray.from_arrays(
        lists.offsets, lists.values, type=lists.type, mask=pc.equal(pc.list_value_length(lists), 0)
    )


def gaps_of(wanted: OffsetRange, got: Decoded | Corrupt) -> list[Gap]:
    """The offsets of a decoded run that legally carry no record, with the reason."""
    partition = TopicPartition(wanted.topic, wanted.topic_id, wanted.partition)
    if isinstance(got, Corrupt):
        return [Gap(partition, got.start, got.end, "corrupt")]
    gaps = [
        Gap(partition, each.first_offset, each.last_offset + 1, "control" if each.is_control else "aborted")
        for each in got.skipped
    ]
    gaps += [Gap(partition, first, last + 1, "compacted") for first, last in got.gaps.tolist()]
    return gaps
