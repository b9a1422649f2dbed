"""Appending the records of an old log to an empty partition, each exactly once, however often that is interrupted.

The partition itself is the ledger: record n of the source gets offset n, so the log's end says how many are there. What
makes that safe is Kafka's idempotence, used as a compare-and-append. All runs of an import into a topic have one
producer id, made from the topic's id, and the sequence of a batch is its offset. A broker takes a batch of a producer
only if its sequence follows the last, so a batch is appended only where it belongs: what a killed run left in a socket,
or what a second run sends at the same time, is either the next batch, and the other one is refused, or a duplicate.
Whoever is refused looks where the log ends, and goes on there. Nothing is kept beside the topic that could be lost or
go stale.

It takes for granted that nobody else writes to the topic and that the files are the same at each run (more at their
end is fine). So before anything is appended the last batch of the partition must be ours, and have the same records as
the source has at these numbers; and at each append and at the end, offsets must be what was expected.

The ids that clusters hand out count up from 0; ours have the second highest bit set.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING
from uuid import UUID

from penstock.client.client import EARLIEST, LATEST
from penstock.client.limits import (
    CLIENT_BATCH_BYTES,
    CLIENT_RETRY_BACKOFF_MS,
    IMPORT_SETTLE_MS,
    IMPORT_STEP_RECORDS,
)
from penstock.errors import ErrorCode, RequestError, UsageError
from penstock.records.batch import HEADER_BYTES, MAX_SEQUENCE, check_crc, headers
from penstock.records.builder import BatchBuilder
from penstock.records.compression import Codec, Contexts
from penstock.records.legacy.formats import LegacyRecord
from penstock.records.reader import bounded, records

if TYPE_CHECKING:
    from penstock.client.client import Client, Fetched

PRODUCER_EPOCH = 0
RECORD_OVERHEAD_BYTES = 32
"""More than what a record has besides its key and value."""
GROWTH_PART = 256
"""By less than one part in so many grows what cannot be compressed."""
MAX_DELTA = 2**63 - 1
ELSEWHERE = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
"""How a broker refuses a batch whose place is not the log's end."""

Content = tuple[int, bytes | None, bytes | None]


@dataclass(frozen=True, slots=True)
class Target:
    """Where an import goes. `batch_bytes`: no batch of several records is larger, before and after its compression."""

    topic: str
    topic_id: UUID
    partition: int
    codec: Codec | None = None
    """None: that of the source's own messages."""
    batch_bytes: int = CLIENT_BATCH_BYTES

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def producer_id(self) -> int:
        """The one producer of all imports into this topic."""
        digest = sha256(b"penstock import" + self.topic_id.bytes + self.topic.encode()).digest()
        return int.from_bytes(digest[:8], "big") >> 2 | 1 << 62


class LogEndMoved(Exception):
    """The log ends before what was taken from the source; begin again."""


class PartitionImport:
    """See the module's head. One partition; `run` may be called once.

    Args:
        client: connected.
        target: the partition, which must be empty or have what an earlier run appended.
        open_records: begins to read the source; called again if a log turns out to be shorter than it was.

    Attributes:
        found: records that were there before.
        position: records that are there now, as far as it is known.
    """

    def __init__(self, client: Client, target: Target, open_records: Callable[[], Iterator[LegacyRecord]]) -> None:
        self._client = client
        self._target = target
        self._open_records = open_records
        self._contexts = Contexts()
        self._source: Iterator[LegacyRecord] = iter(())
        self._again: deque[LegacyRecord] = deque()
        self._taken = 0
        self.found: int | None = None
        self.position = 0

    async def run(self) -> None:
        """Appends all that is not there yet.

        Raises UsageError when the partition has other records than the source, RequestError when a broker refuses a
        batch, UnreachableError when it does not answer; after that another run goes on where this one ended.
        """
        while True:
            self._source, self._taken = self._open_records(), 0
            self._again.clear()
            try:
                await self._resume()
                await self._append_all()
            except LogEndMoved:
                continue
            end = await self._end()
            if end > self.position:
                raise self._others(f"it ends at {end}, not at {self.position}")
            if end == self.position:
                return

    async def _resume(self) -> None:
        """Passes over what is there already, once it is known to be the same."""
        start, end = await self._start(), await self._end()
        if start == end > 0:
            raise UsageError(f"{self._target} is empty, but ended at {end} once: import into a new topic")
        expected = await self._last_batch(end) if end else {}
        while self._taken < end:
            record = self._take()
            if record is None:
                raise UsageError(
                    f"{self._target} has {end} records, and the files have only {self._taken}: they are not those that"
                    " were imported before"
                )
            number = self._taken - 1
            if expected.get(number, content := record[1:4]) != content:
                raise UsageError(f"{self._target} has another record at offset {number} than the files: {ADVICE}")
            if not number % IMPORT_STEP_RECORDS:
                await asyncio.sleep(0)
        self.position = end
        if self.found is None:
            self.found = end

    async def _append_all(self) -> None:
        """Appends batch by batch, and goes on elsewhere where another run was quicker."""
        refusals = 0
        while batch := self._take_batch():
            if await self._append(self.position, batch):
                self.position += len(batch)
                refusals = 0
                continue
            refusals += 1
            self._again.extendleft(reversed(batch))
            self._taken -= len(batch)
            await self._go_where_the_log_ends(refusals)

    async def _go_where_the_log_ends(self, refusals: int) -> None:
        """Passes over what others have appended. Raises RequestError if that is nothing for too long, LogEndMoved."""
        end = await self._end()
        if end < self.position:
            raise LogEndMoved
        if end == self.position:
            if refusals * CLIENT_RETRY_BACKOFF_MS > IMPORT_SETTLE_MS:
                raise RequestError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"{self._target} ends at {end}, but does not take the batch for this offset; {ADVICE}",
                )
            await asyncio.sleep(CLIENT_RETRY_BACKOFF_MS / 1000)
        while self._taken < end:
            if self._take() is None:
                raise self._others(f"it ends at {end}, and the files have only {self._taken} records")
        self.position = end

    async def _append(self, offset: int, batch: Sequence[LegacyRecord]) -> bool:
        """Appends a batch whose first record gets this offset; false if the log does not end there."""
        target = self._target
        builder = BatchBuilder(
            codec=self._codec(batch[0]),
            producer_id=target.producer_id,
            producer_epoch=PRODUCER_EPOCH,
            base_sequence=offset & MAX_SEQUENCE,
            contexts=self._contexts,
        )
        for record in batch:
            builder.append(record.timestamp_ms, record.key, record.value)
        try:
            base_offset, _ = await self._client.produce(
                target.topic, target.partition, builder.build(), topic_id=target.topic_id
            )
        except RequestError as error:
            if error.code in ELSEWHERE:
                return False
            if advice := REFUSALS.get(error.code):
                error.add_note(advice.format(topic=target.topic))
            raise
        if base_offset != offset:
            raise self._others(f"what should be at offset {offset} was appended at {base_offset}")
        return True

    def _take(self) -> LegacyRecord | None:
        """The next record of the source."""
        record = self._again.popleft() if self._again else next(self._source, None)
        self._taken += record is not None
        return record

    def _take_batch(self) -> list[LegacyRecord]:
        """Records for one batch; none at the end of the source."""
        batch: list[LegacyRecord] = []
        size_bytes = HEADER_BYTES
        while (record := self._take()) is not None:
            data_bytes = len(record.key or b"") + len(record.value or b"")
            size_bytes += RECORD_OVERHEAD_BYTES + data_bytes + data_bytes // GROWTH_PART
            if batch and (size_bytes > self._target.batch_bytes or not self._fit(batch[0], record)):
                self._again.appendleft(record)
                self._taken -= 1
                break
            batch.append(record)
        return batch

    def _fit(self, first: LegacyRecord, record: LegacyRecord) -> bool:
        """Whether both can be in one batch."""
        if record.codec != first.codec and self._target.codec is None:
            return False
        return record.timestamp_ms - first.timestamp_ms <= MAX_DELTA

    def _codec(self, record: LegacyRecord) -> Codec:
        return Codec(record.codec) if self._target.codec is None else self._target.codec

    async def _start(self) -> int:
        return await self._offset(EARLIEST)

    async def _end(self) -> int:
        return await self._offset(LATEST)

    async def _offset(self, which: int) -> int:
        """Raises RequestError if the topic is not the one that it was."""
        key = (self._target.topic, self._target.partition)
        found = (await self._client.offsets([key], which))[key]
        if (await self._client.topic(self._target.topic)).topic_id != self._target.topic_id:
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_ID, f"{self._target.topic} was deleted and made again meanwhile")
        return found.offset

    async def _last_batch(self, end: int) -> dict[int, Content]:
        """The records of the batch before `end`, by offset. Raises UsageError unless an import wrote it."""
        key = (self._target.topic, self._target.partition)
        fetched: Fetched = (await self._client.fetch({key: end - 1}, max_wait_ms=0))[key]
        for position, header in headers(fetched.records):
            if not header.base_offset < end <= header.next_offset:
                continue
            sequence = header.base_offset & MAX_SEQUENCE
            if (header.producer_id, header.base_sequence) != (self._target.producer_id, sequence):
                break
            check_crc(fetched.records, position, header)
            own = records(fetched.records, header, position, bounded(self._contexts))
            return {each.offset: (each.timestamp_ms, each.key, each.value) for each in own}
        raise UsageError(f"{self._target} has {end} records, the last of which no import has written: {ADVICE}")

    def _others(self, what: str) -> UsageError:
        return UsageError(f"{self._target}: {what}: somebody else writes to it, or its brokers lost records; {ADVICE}")


ADVICE = "import into a new topic, to which nobody else writes"
REFUSALS = {
    ErrorCode.MESSAGE_TOO_LARGE: "a record is larger than the topic takes: raise it with `penstock configs alter --name"
    " {topic} --add max.message.bytes=N`",
    ErrorCode.INVALID_TIMESTAMP: "a record's time is out of the topic's bounds: message.timestamp.before.max.ms and"
    " message.timestamp.after.max.ms of {topic} say them",
    ErrorCode.INVALID_RECORD: "a compacted topic takes no records without a key",
}
