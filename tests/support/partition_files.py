"""A partition as its leader has it, as a client would ask for it, and as files in a directory: without any broker.

    leader = Leader(tmp_path / "clicks-0", batches)
    leader.write_segments([0, 10, 25])
    rows = leader.read(0, 30)

`leader.before_check` are called one by one, each before the leader is asked whether it still leads: there, tests do to
the files what brokers do while somebody reads.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from penstock.client.client import READ_COMMITTED, READ_UNCOMMITTED, Fetched, TopicState
from penstock.errors import ErrorCode, RequestError, UnreachableError
from penstock.log import partition_metadata
from penstock.log.names import LOG, OFFSET_INDEX, PARTITION_METADATA, file_name
from penstock.records.batch import read_entry
from penstock.records.builder import BatchBuilder
from penstock.spark.read.decoding import Corrupt, runs
from penstock.spark.read.files import Reads
from penstock.spark.read.files_finding import Lead
from penstock.spark.read.files_segments import INDEX_ENTRY
from penstock.spark.read.plan import OffsetRange

TOPIC_ID = UUID("12345678-0000-4000-8000-000000000001")
TOPIC = "clicks"


def batch(base_offset: int, records: int, *, word: str = "value", epoch: int = 0, **options: Any) -> bytes:
    """A batch of records whose values tell their offsets."""
    builder = BatchBuilder(base_offset=base_offset, **options)
    for offset in range(base_offset, base_offset + records):
        builder.append(1_000 + offset, b"key", f"{word} {offset}".encode())
    data = builder.build()
    data[12:16] = epoch.to_bytes(4, "big")
    return bytes(data)


class Leader:
    """The leader of one partition; stands for the client and for the connection to it, too."""

    def __init__(self, directory: Path, batches: Sequence[bytes], *, topic_id: UUID = TOPIC_ID) -> None:
        self.directory = directory
        self.batches = list(batches)
        self.topic_id = topic_id
        self.epoch = 0
        self.start = 0
        self.end = read_entry(self.batches[-1]).next_offset if batches else 0
        self.aborted: list[tuple[int, int, int]] = []
        """Producer id, first and last offset of aborted transactions."""
        self.closed = False
        self.before_check: list[Callable[[], None]] = []
        self.fetched: list[int] = []
        """The offsets that were asked of it as a broker."""
        directory.mkdir(parents=True, exist_ok=True)
        (directory / PARTITION_METADATA).write_bytes(partition_metadata.encode(topic_id))

    # the directory

    def write_segments(self, bases: Sequence[int], *, indexed: bool = True) -> None:
        """The log as files that begin at the given offsets, with an index entry for every third batch."""
        for base, following in zip(bases, [*bases[1:], 2**62], strict=True):
            within = [data for data in self.batches if base <= read_entry(data).base_offset < following]
            self.write(base, within, indexed=indexed)

    def write(self, base: int, batches: Sequence[bytes], *, suffix: str = "", indexed: bool = True) -> None:
        """One segment."""
        position, entries = 0, b""
        for number, data in enumerate(batches):
            if number % 3 == 2 and indexed:
                entries += INDEX_ENTRY.pack(read_entry(data).last_offset - base, position)
            position += len(data)
        self.path(base, suffix).write_bytes(b"".join(batches))
        (self.directory / (file_name(base, OFFSET_INDEX) + suffix)).write_bytes(entries)

    def path(self, base: int, suffix: str = "") -> Path:
        return self.directory / (file_name(base, LOG) + suffix)

    # the client

    async def topic(self, name: str) -> TopicState:
        return TopicState(self.topic_id, (1,))

    async def fetch(self, positions: Mapping[tuple[str, int], int], *, isolation: int, **_: Any) -> dict[Any, Fetched]:
        """Two batches at most, as a broker cuts its answers short."""
        ((key, position),) = positions.items()
        self.fetched.append(position)
        if not self.start <= position <= self.end:
            raise RequestError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{key[0]}-{key[1]}: OFFSET_OUT_OF_RANGE")
        readable = [data for data in self.batches if position <= read_entry(data).last_offset < self.end][:2]
        upper = read_entry(readable[-1]).next_offset if readable else position
        aborted = [(each[0], each[1]) for each in self.aborted if each[2] >= position and each[1] < upper]
        records = memoryview(b"".join(readable))
        return {key: Fetched(records, self.end, self.end, self.start, tuple(aborted) if isolation else ())}

    # the connection

    async def send(self, request: Any) -> Any:
        """ListOffsets, fenced by the leader epoch."""
        if self.closed:
            raise UnreachableError("the connection was closed")
        if self.before_check:
            self.before_check.pop(0)()
        fenced = request.topics[0].partitions[0].current_leader_epoch != self.epoch
        code = ErrorCode.FENCED_LEADER_EPOCH if fenced else ErrorCode.NONE
        return SimpleNamespace(topics=[SimpleNamespace(partitions=[SimpleNamespace(error_code=code)])])

    # reading

    def lead(self) -> Lead:
        """What it says at first."""
        connection: Any = self
        return Lead(TOPIC, 0, self.epoch, connection, self.directory, self.start, self.end)

    def read(
        self,
        start: int,
        end: int,
        *,
        read: str = "auto",
        isolation: int = READ_UNCOMMITTED,
        lead: Lead | str | None = None,
        skip_corrupt: bool = False,
    ) -> Rows:
        """What a task gets of the range."""
        wanted = OffsetRange(TOPIC, TOPIC_ID, 0, start, end)
        client: Any = self
        leads = {} if read == "broker" else {(TOPIC, 0): lead or self.lead()}

        async def items() -> list[tuple[int, Fetched]]:
            reads = Reads(client, read, isolation, leads, deque())
            try:
                return [item async for item in reads.range(wanted)]
            finally:
                reads.close()

        rows = Rows()
        for position, fetched in asyncio.run(items()):
            for got in runs(wanted, position, fetched, isolation=isolation, skip_corrupt=skip_corrupt):
                rows.add(got)
        return rows

    def read_committed(self, start: int, end: int, read: str = "auto") -> Rows:
        return self.read(start, end, read=read, isolation=READ_COMMITTED)


class Rows:
    """All that a reader was given, comparable: the rows, and every offset without one with the reason."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.missing: list[tuple[int, str]] = []

    def add(self, got: Any) -> None:
        if isinstance(got, Corrupt):
            self.missing += [(offset, "corrupt") for offset in range(got.start, got.end)]
            return
        self.rows += got.batch.to_pylist()
        for first, last in got.gaps.tolist():
            self.missing += [(offset, "gap") for offset in range(first, last + 1)]
        for each in got.skipped:
            reason = "control" if each.is_control else "aborted"
            self.missing += [(offset, reason) for offset in range(each.first_offset, each.last_offset + 1)]

    @property
    def offsets(self) -> list[int]:
        return [row["offset"] for row in self.rows]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rows) and (self.rows, sorted(self.missing)) == (other.rows, sorted(other.missing))

    def __hash__(self) -> int:
        raise TypeError("rows change")

    def __repr__(self) -> str:
        return f"offsets {self.offsets}, missing {self.missing}"
