"""One partition as an import sees it, in memory, with a broker's own rules for what a producer may append.

`Partition` has what was appended; `Connection` stands for a connected client of it. Before each of its calls and for
each batch it asks `fate` what happens: `OK`, or one of the faults below.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from penstock.client.client import LATEST
from penstock.errors import ErrorCode, RequestError
from penstock.log.producer_state import Origin, ProducerState
from penstock.records.batch import read_header
from penstock.records.legacy.formats import LegacyRecord
from penstock.records.reader import records

OK = "ok"
SLOW = "it takes long, and others are quicker"
KILLED_BEFORE = "killed before it sends"
KILLED_WITH_IT_UNDER_WAY = "killed, and what it sent arrives later"
KILLED_AFTER = "killed before the answer comes"
LATE = "what a killed one sent arrives"
TRUNCATED = "the log loses its last batch"

TOPIC_ID = UUID(int=7)
SLOW_TURNS = 7
"""Turns of the loop, of which a call takes one otherwise."""


class Killed(Exception):
    """The process of the import is no more."""


class Partition:
    """A log of batches."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.late: list[bytes] = []
        self.start = 0
        self.state = ProducerState()
        self.topic_id = TOPIC_ID

    @property
    def end(self) -> int:
        return read_header(self.batches[-1]).next_offset if self.batches else 0

    def append(self, batch: bytes) -> int:
        """Base offset. Raises RequestError as a broker does."""
        header = read_header(batch)
        if (same := self.state.duplicate_of(header)) is not None:
            return int(same.first_offset)
        base = self.end
        self.state.reserve(header, base, Origin.CLIENT)
        self.batches.append(base.to_bytes(8, "big") + batch[8:])
        return base

    def truncate(self) -> None:
        """Loses the last batch, and what was known of it; never the only one."""
        if len(self.batches) < 2:
            return
        self.batches.pop()
        self.state = ProducerState()
        for batch in self.batches:
            self.state.reserve(read_header(batch), read_header(batch).base_offset, Origin.CLIENT)

    def deliver_late(self) -> None:
        if self.late:
            with suppress(RequestError):
                self.append(self.late.pop(0))

    def content(self) -> list[tuple[int, bytes | None, bytes | None]]:
        return [record[1:4] for batch in self.batches for record in records(batch, read_header(batch))]


class Connection:
    """See the module's head."""

    def __init__(self, partition: Partition, fate: Callable[[], str] = lambda: OK) -> None:
        self.partition = partition
        self._fate = fate

    async def _others_run(self) -> str:
        fate = self._fate()
        if fate == LATE:
            self.partition.deliver_late()
        elif fate == TRUNCATED:
            self.partition.truncate()
        for _ in range(SLOW_TURNS if fate == SLOW else 1):
            await asyncio.sleep(0)
        return fate

    async def topic(self, _: str) -> Any:
        return SimpleNamespace(topic_id=self.partition.topic_id)

    async def offsets(self, keys: Iterable[tuple[str, int]], which: int) -> dict[tuple[str, int], Any]:
        await self._others_run()
        offset = self.partition.end if which == LATEST else self.partition.start
        return {key: SimpleNamespace(offset=offset) for key in keys}

    async def fetch(self, positions: dict[tuple[str, int], int], *, max_wait_ms: int) -> dict[tuple[str, int], Any]:
        await self._others_run()
        ((key, offset),) = positions.items()
        data = b"".join(batch for batch in self.partition.batches if read_header(batch).next_offset > offset)
        return {key: SimpleNamespace(records=memoryview(data))}

    async def produce(self, topic: str, partition: int, batch: bytes | bytearray, *, topic_id: UUID) -> tuple[int, int]:
        if topic_id != self.partition.topic_id:
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_ID, f"{topic} was deleted and made again meanwhile")
        fate = await self._others_run()
        if fate == KILLED_BEFORE:
            raise Killed
        if fate == KILLED_WITH_IT_UNDER_WAY:
            self.partition.late.append(bytes(batch))
            raise Killed
        base = self.partition.append(bytes(batch))
        if fate == KILLED_AFTER:
            raise Killed
        return base, -1


def source(count: int, *, codecs: tuple[int, ...] = (0,)) -> list[LegacyRecord]:
    """Records, each another one."""
    return [
        LegacyRecord(
            n, -1 if n % 5 == 0 else n, None if n % 3 == 0 else b"k%d" % n, b"v%d" % n, codecs[n % len(codecs)]
        )
        for n in range(count)
    ]
