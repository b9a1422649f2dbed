"""Direct reads: closed segments from their files, the rest through the brokers, and no difference to be seen.

A task asks the leaders once which offsets are readable, opens their directories after that, and before it gives a piece
away has the leader say that it still leads in the same epoch (`Lead.lasts`): so nothing was truncated while the piece
was read. What files cannot answer (the active segment, a hole between two files, transactions when reading committed
records, a wrong checksum) the brokers are asked for, from the last good offset on. The whole argument is in
docs/explanation/direct-reads.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import aclosing

from penstock.client.client import READ_COMMITTED, Client, Fetched, Partition
from penstock.client.reader import next_position, read_range
from penstock.errors import PenstockError
from penstock.records.batch import entries
from penstock.spark.limits import SPARK_FILES_LEAST_OFFSETS, SPARK_RANGES_AT_ONCE
from penstock.spark.read.files_finding import Lead, find
from penstock.spark.read.files_segments import Elsewhere, Hole, PartitionFiles, Piece, Spare
from penstock.spark.read.plan import OffsetRange

AUTO, BROKER, FILES = "auto", "broker", "files"
WAYS = (AUTO, BROKER, FILES)
"""How records may be read: `penstock.read`."""


class DirectReadError(PenstockError):
    """Files were asked for, and a partition cannot be read from them. The message names it and says why."""


class Reads:
    """Reads the ranges of one task, from files or through the brokers as `read` has it. See the module's head."""

    def __init__(
        self, client: Client, read: str, isolation: int, leads: Mapping[Partition, Lead | str], spare: Spare
    ) -> None:
        assert read in WAYS
        self._client = client
        self._read = read
        self._isolation = isolation
        self._leads = leads
        self._spare = spare
        self._threads = ThreadPoolExecutor(SPARK_RANGES_AT_ONCE, "penstock-files")

    @classmethod
    async def begin(
        cls,
        client: Client,
        ranges: Sequence[OffsetRange],
        *,
        read: str,
        isolation: int,
        log_dirs: Sequence[str],
        spare: Spare,
    ) -> Reads:
        """Finds out what can be read from files. Raises ConfigError for a wrong `penstock.log.dirs`.

        Whoever is done with what came of a range may add its buffer to `spare`.
        """
        leads: Mapping[Partition, Lead | str] = {}
        small = sum(each.size for each in ranges) < SPARK_FILES_LEAST_OFFSETS
        if read == FILES or (read == AUTO and not small):
            leads = await find(client, ranges, isolation, log_dirs)
        return cls(client, read, isolation, leads, spare)

    def close(self) -> None:
        """Ends the threads. No range may be under way."""
        self._threads.shutdown()

    async def range(self, wanted: OffsetRange) -> AsyncGenerator[tuple[int, Fetched], None]:
        """As `read_range`: (position asked for, what came) to the end of the range.

        Raises as `read_range`, and DirectReadError if there is no other way than the broker and `read` forbids it.
        """
        lead = self._leads.get((wanted.topic, wanted.partition))
        position = wanted.start
        if isinstance(lead, Lead) and lead.start <= position:
            try:
                files = PartitionFiles(
                    lead.directory,
                    wanted.topic_id,
                    lead.leader_epoch,
                    committed=self._isolation == READ_COMMITTED,
                    spare=self._spare,
                )
            except Elsewhere as error:
                self._refuse(wanted, position, str(error))
            else:
                with files:
                    async with aclosing(self._mixed(wanted, lead, files)) as items:
                        async for item in items:
                            yield item
                return
        elif self._read == FILES:
            reason = lead if isinstance(lead, str) else f"its leader has nothing before {lead and lead.start}"
            self._refuse(wanted, position, reason)
        async with aclosing(self._broker(wanted, position, wanted.end)) as items:
            async for item in items:
                yield item

    async def _mixed(
        self, wanted: OffsetRange, lead: Lead, files: PartitionFiles
    ) -> AsyncGenerator[tuple[int, Fetched], None]:
        """The range from files as far as they go, and through the broker where they do not."""
        position = wanted.start
        while position < wanted.end:
            until: int | None = wanted.end
            try:
                async with aclosing(self._pieces(lead, files, position, min(wanted.end, lead.end))) as pieces:
                    async for asked, piece in pieces:
                        position = piece.next_offset
                        yield asked, Fetched(piece.records, lead.end, lead.end, lead.start, ())
            except Hole as hole:
                if await self._is_hole(lead, hole):
                    files.pass_over(hole.end)
                    continue
                until = hole.end
                self._refuse(wanted, position, str(hole))
            except Elsewhere as error:
                until = error.until
                if not error.active:
                    self._refuse(wanted, position, str(error))
            async with aclosing(self._broker(wanted, position, min(until or wanted.end, wanted.end))) as items:
                async for asked, fetched in items:
                    position = next_position(fetched.records, asked)
                    yield asked, fetched

    async def _pieces(
        self, lead: Lead, files: PartitionFiles, position: int, end: int
    ) -> AsyncGenerator[tuple[int, Piece], None]:
        """The pieces of the files in order, each only after its leader has vouched for it.

        The next piece is read while the leader is asked. Raises Elsewhere or Hole, after all pieces that were good.
        """
        reading: Future[Piece] | None = None
        try:
            if position < end:
                reading = self._threads.submit(files.read, position, end)
            while reading is not None:
                piece = await asyncio.wrap_future(reading)
                asked, position = position, piece.next_offset
                reading = self._threads.submit(files.read, position, end) if position < end else None
                if not await lead.lasts():
                    raise Elsewhere("its leader changed or was restarted while its files were read")
                yield asked, piece
        finally:
            if reading is not None:
                wait([reading])  # the files are closed next

    async def _is_hole(self, lead: Lead, hole: Hole) -> bool:
        """Whether the broker too has no batch between the two files: the cleaner took them, and no name is missing."""
        key = (lead.topic, lead.partition)
        fetched = (
            await self._client.fetch(
                {key: hole.start}, max_wait_ms=0, max_bytes=1, partition_max_bytes=1, isolation=self._isolation
            )
        )[key]
        first = next(entries(fetched.records), None)
        return first is not None and first[1].base_offset >= hole.end

    def _broker(self, wanted: OffsetRange, position: int, end: int) -> AsyncGenerator[tuple[int, Fetched], None]:
        return read_range(
            self._client,
            wanted.topic,
            wanted.partition,
            position,
            end,
            isolation=self._isolation,
            topic_id=wanted.topic_id if wanted.topic_id.int else None,
        )

    def _refuse(self, wanted: OffsetRange, position: int, reason: str) -> None:
        """Raises DirectReadError where files are a must."""
        if self._read == FILES:
            raise DirectReadError(
                f"{wanted.topic}-{wanted.partition} cannot be read from files at offset {position}: {reason}"
            )
