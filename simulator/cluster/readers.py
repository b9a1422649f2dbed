"""Readers of a simulated cluster: one partition, from its beginning, record by record, and on as it grows.

What a reader is served must follow what it has read, without a gap, and agree with what every other client knows. A
reader that asks for the offset after the last one it was served never falls off the end, unless a leader was elected
uncleanly, nor off the beginning, unless records were deleted: then it goes on where the partition begins. It says which
leader epoch it believes in, and is served nothing from a later one (KIP-320).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.errors import ErrorCode, PenstockError
from penstock.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from penstock.records.batch import check_crc, headers
from penstock.records.reader import records
from simulator.cluster.history import PartitionHistory
from simulator.cluster.load import AGAIN, RETRY_MS, Load
from simulator.world.checks import Violation, check
from simulator.world.network import Address

FETCH_VERSION, LIST_VERSION = 12, 6
EARLIEST = -2
FETCH_BYTES = 20_000
MAX_WAIT_MS = 300
FENCED = "a stale leader epoch is fenced"


def decoded(content: memoryview, where: str) -> dict[int, bytes]:
    """Offset to value of all records, their checksums checked. Raises Violation for a damaged batch."""
    values = {}
    try:
        for position, header in headers(content):
            check_crc(content, position, header)
            for record in records(content[position : position + header.size_bytes], header):
                values[record.offset] = bytes(record.value or b"")
    except PenstockError as error:
        raise Violation(f"nothing is served that was not written: {where}: {error}") from error
    return values


class Reader:
    """One reader of one partition.

    Attributes:
        position: the next offset. high_watermark: as last told.
        done: called once when everything below the high watermark has been read and the load is over.
    """

    def __init__(self, load: Load, partition: PartitionHistory, name: str) -> None:
        self.load = load
        self.partition = partition
        self.name = name
        self.client = load.client(name)
        self.position = 0
        self.high_watermark = -1
        self.reads = 0
        self.done: Callable[[], None] | None = None
        self._epoch = -1

    @property
    def leader(self) -> Address | None:
        return self.client.leaders.get((self.partition.topic, self.partition.index))

    def go_on(self) -> None:
        """Fetches, or finds out where."""
        if self.leader is None:
            self.client.find_leaders(self.partition.topic, self._found)
            return
        self._epoch = self.client.leader_epochs[self.partition.topic, self.partition.index]
        wanted = FetchPartition(
            partition=self.partition.index,
            fetch_offset=self.position,
            partition_max_bytes=FETCH_BYTES,
            current_leader_epoch=self._epoch,
        )
        topics = [FetchTopic(topic=self.partition.topic, partitions=[wanted])]
        request = FetchRequest(max_wait_ms=MAX_WAIT_MS, min_bytes=1, max_bytes=FETCH_BYTES, topics=topics)
        self.client.ask(self.leader, request, FETCH_VERSION, self._answered)

    def _found(self) -> None:
        if self.leader is None:
            self._later(RETRY_MS)
        else:
            self.go_on()

    def _later(self, delay_ms: int) -> None:
        self.load.simulation.after_ms(delay_ms, self.go_on)

    def _answered(self, response: Any) -> None:
        data = self._data(response)
        if data is not None and data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._find_start()
            return
        if data is None:
            self.client.leaders.pop((self.partition.topic, self.partition.index), None)
            self._later(RETRY_MS)
            return
        self.reads += 1
        values = self._take(data)
        self.high_watermark = data.high_watermark
        finished = not self.load.going_on and not values and self.position >= data.high_watermark
        if finished and self.done is not None:
            self.done()
        elif not finished:
            self._later(self.load.think())

    def _data(self, response: Any) -> Any:
        """What was answered for the partition; None when that is nothing to go on with."""
        if response is None or response.error_code or not response.responses:
            return None
        data = response.responses[0].partitions[0]
        code = ErrorCode(data.error_code)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            rightly = self.position < self.partition.may_start_at or self.partition.unclean
            check(rightly, "what a reader saw stays", f"{self.name}: {self.position} is out of range")
            return data
        check(code in AGAIN or code is ErrorCode.NONE, "a fetch is answered", f"{self.name}: {code.name}")
        return None if code else data

    def _find_start(self) -> None:
        """Goes on where the partition begins."""
        leader = self.leader
        assert leader is not None
        wanted = ListOffsetsPartition(partition_index=self.partition.index, timestamp=EARLIEST)
        topics = [ListOffsetsTopic(name=self.partition.topic, partitions=[wanted])]
        request = ListOffsetsRequest(replica_id=-1, topics=topics)
        self.client.ask(leader, request, LIST_VERSION, self._told_start)

    def _told_start(self, response: Any) -> None:
        if response is not None and not response.topics[0].partitions[0].error_code:
            start, partition = response.topics[0].partitions[0].offset, self.partition
            detail = f"{self.name}: it begins at {start}, not below {partition.may_start_at}"
            check(start <= partition.may_start_at, "what a reader saw stays", detail)
            self.position = start
        else:
            self.client.leaders.pop((self.partition.topic, self.partition.index), None)
        self._later(RETRY_MS)

    def _take(self, data: Any) -> bool:
        """Takes what was served; whether there was anything."""
        values = decoded(memoryview(data.records or b""), f"{self.partition.name} at {self.position}")
        self._check_epochs(memoryview(data.records or b""))
        new = sorted(offset for offset in values if offset >= self.position)
        for offset in new:
            where = f"{self.name}: {offset} after {self.position - 1}"
            check(offset == self.position, "offsets have no gap", where)
            check(offset < data.high_watermark, "nothing above the high watermark is served", where)
            self.partition.saw(offset, values[offset])
            self.position += 1
        return bool(new)

    def _check_epochs(self, content: memoryview) -> None:
        for _, header in headers(content):
            epoch = header.leader_epoch
            detail = f"{self.name}: by epoch {self._epoch} of {self.partition.name} it was served one of {epoch}"
            check(epoch <= self._epoch, FENCED, detail)
