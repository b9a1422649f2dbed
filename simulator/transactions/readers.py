"""Readers of partitions with transactions: of everything, and of what is committed.

A reader of committed records passes over what the answer says is aborted, as Kafka's consumer does: from the first
offset of an aborted transaction on, the batches of its producer, up to the marker. What it has passed is decided. Every
now and then it asks where the partition ends for it (ListOffsets): there, where what is stable ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from penstock.errors import ErrorCode, PenstockError
from penstock.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from penstock.records.batch import BatchHeader, check_crc, headers
from penstock.records.control import ControlType, control_records
from penstock.records.reader import records
from simulator.cluster.history import WRITTEN
from simulator.cluster.load import AGAIN, RETRY_MS, Load
from simulator.cluster.readers import FETCH_BYTES, FETCH_VERSION, LIST_VERSION, MAX_WAIT_MS, Reader
from simulator.transactions.history import ONLY_COMMITTED, ORDER, LedgerHistory
from simulator.world.checks import Violation, check

ALL_RECORDS, COMMITTED_RECORDS = 0, 1
"""Isolation levels."""
LATEST = -1
END_ASKED_PROBABILITY = 0.15
STABLE_STAYS = "a leader's last stable offset goes on only, and is the end that readers of committed records are told"
STABLE = "the last stable offset is not beyond the high watermark"


class Found(NamedTuple):
    """One batch of what was served or stored: its records' values by offset, or what ends a transaction."""

    header: BatchHeader
    values: dict[int, bytes]
    marker: ControlType | None


def batches(content: bytes | memoryview, where: str) -> Iterator[Found]:
    """All batches, checksums checked. Raises Violation for a damaged one."""
    content = memoryview(content)
    try:
        for position, header in headers(content):
            check_crc(content, position, header)
            batch = content[position : position + header.size_bytes]
            if header.is_control:
                marker = next((each.type for each in control_records(batch, header)), None)
                yield Found(header, {}, marker)
            else:
                values = {each.offset: bytes(each.value or b"") for each in records(batch, header)}
                yield Found(header, values, None)
    except PenstockError as error:
        raise Violation(f"{WRITTEN}: {where}: {error}") from error


def committed_values(data: Any, start: int, where: str) -> tuple[dict[int, bytes], int]:
    """What an answer to a fetch has for a reader of committed records from an offset on, and where it goes on."""
    waiting = sorted((each.first_offset, each.producer_id) for each in data.aborted_transactions or ())
    aborted: set[int] = set()
    values: dict[int, bytes] = {}
    end = start
    for found in batches(data.records or b"", where):
        header = found.header
        detail = f"{where}: a batch at {header.base_offset}, the last stable offset is {data.last_stable_offset}"
        check(header.base_offset < data.last_stable_offset, ONLY_COMMITTED, detail)
        while waiting and waiting[0][0] <= header.last_offset:
            aborted.add(waiting.pop(0)[1])
        if header.is_control:
            if found.marker is ControlType.ABORT:
                aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborted):
            values.update((offset, value) for offset, value in found.values.items() if offset >= start)
        end = max(end, header.next_offset)
    return values, end


def fetch_request(ledger: LedgerHistory, offset: int, epoch: int, isolation: int, wait_ms: int) -> FetchRequest:
    """Asks for what a partition has from an offset on."""
    wanted = FetchPartition(
        partition=ledger.index, fetch_offset=offset, partition_max_bytes=FETCH_BYTES, current_leader_epoch=epoch
    )
    topics = [FetchTopic(topic=ledger.topic, partitions=[wanted])]
    return FetchRequest(
        max_wait_ms=wait_ms, min_bytes=1, max_bytes=FETCH_BYTES, isolation_level=isolation, topics=topics
    )


def end_request(ledger: LedgerHistory, epoch: int) -> ListOffsetsRequest:
    """Asks where a partition ends for readers of committed records."""
    wanted = ListOffsetsPartition(partition_index=ledger.index, current_leader_epoch=epoch, timestamp=LATEST)
    topics = [ListOffsetsTopic(name=ledger.topic, partitions=[wanted])]
    return ListOffsetsRequest(replica_id=-1, isolation_level=COMMITTED_RECORDS, topics=topics)


class LedgerReader(Reader):
    """One reader of one partition, from its beginning and on as it grows.

    Attributes:
        isolation: what it reads. last_stable_offset: as last told, by the leader of `stable_epoch`.
    """

    def __init__(self, load: Load, ledger: LedgerHistory, name: str, isolation: int) -> None:
        super().__init__(load, ledger, name)
        self.ledger = ledger
        self.isolation = isolation
        self.last_stable_offset = self.stable_epoch = -1

    def go_on(self) -> None:
        if self.leader is None:
            self.client.find_leaders(self.partition.topic, self._found)
            return
        self._epoch = self.client.leader_epochs[self.ledger.place]
        if self.isolation == COMMITTED_RECORDS and self.load.simulation.random.random() < END_ASKED_PROBABILITY:
            self.client.ask(self.leader, end_request(self.ledger, self._epoch), LIST_VERSION, self._told_end)
            return
        request = fetch_request(self.ledger, self.position, self._epoch, self.isolation, MAX_WAIT_MS)
        self.client.ask(self.leader, request, FETCH_VERSION, self._answered)

    def _told_end(self, response: Any) -> None:
        answer = None if response is None else response.topics[0].partitions[0]
        if answer is None or answer.error_code:
            code = ErrorCode.NETWORK_EXCEPTION if answer is None else ErrorCode(answer.error_code)
            check(code in AGAIN, "an end is told", f"{self.name}: {code.name}")
            self.client.leaders.pop(self.ledger.place, None)
            self._later(RETRY_MS)
            return
        self._is_stable_to(answer.offset)
        self._later(self.load.think())

    def _is_stable_to(self, offset: int) -> None:
        """The leader of the epoch that this reader believes in has told its last stable offset."""
        if self.stable_epoch == self._epoch:
            detail = f"{self.name}: {offset} after {self.last_stable_offset}, in epoch {self._epoch}"
            check(offset >= self.last_stable_offset, STABLE_STAYS, detail)
        self.stable_epoch, self.last_stable_offset = self._epoch, offset

    def _take(self, data: Any) -> bool:
        where = f"{self.name} from {self.position}"
        check(
            data.last_stable_offset <= data.high_watermark,
            STABLE,
            f"{where}: {data.last_stable_offset} and {data.high_watermark}",
        )
        self._is_stable_to(data.last_stable_offset)
        self._check_epochs(memoryview(data.records or b""))
        start = self.position
        if self.isolation == COMMITTED_RECORDS:
            values, self.position = committed_values(data, start, where)
            self.ledger.gave_committed(start, self.position, values, self.name)
            return self.position > start
        values = {}
        before = start - 1
        for found in batches(data.records or b"", where):
            check(found.header.last_offset > before, ORDER, f"{where}: {found.header.base_offset} after {before}")
            check(
                found.header.base_offset < data.high_watermark,
                "nothing above the high watermark is served",
                f"{where}: {found.header.base_offset}",
            )
            before = found.header.last_offset
            values.update((offset, value) for offset, value in found.values.items() if offset >= start)
            self.position = max(self.position, found.header.next_offset)
        for offset, value in values.items():
            self.ledger.saw(offset, value)
        self.ledger.read_past(start, self.position, set(values), self.name)
        return self.position > start
