"""The consumer: from which offset to which, control batches and aborted transactions passed over, damage told."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from support.legacy import GZIP, NONE, Kept, message_set

from penstock.client.client import READ_COMMITTED, READ_UNCOMMITTED, Fetched
from penstock.client.consumer import read_records
from penstock.errors import CorruptRecordError
from penstock.records.batch import entries, read_entry
from penstock.records.builder import BatchBuilder
from penstock.records.control import ControlType, EndTransactionMarker, end_transaction_marker

PRODUCER_ID = 7


def batch(base_offset: int, *values: bytes, **options: Any) -> bytes:
    builder = BatchBuilder(base_offset=base_offset, leader_epoch=0, **options)
    for value in values:
        builder.append(1, None, value)
    return bytes(builder.build())


def transactional(base_offset: int, *values: bytes) -> bytes:
    return batch(
        base_offset, *values, is_transactional=True, producer_id=PRODUCER_ID, producer_epoch=0, base_sequence=0
    )


def ended(how: ControlType, base_offset: int) -> bytes:
    marker = EndTransactionMarker(how, 0)
    options = {"producer_id": PRODUCER_ID, "producer_epoch": 0, "wall_ms": 1}
    return bytes(end_transaction_marker(marker, base_offset=base_offset, **options))


class Broker:
    """Stands for a connected client: each fetch brings the next whole batch from the position on."""

    def __init__(self, *batches: bytes, aborted: tuple[tuple[int, int], ...] = ()) -> None:
        self.batches = batches
        self.aborted = aborted
        self.asked: list[int] = []

    async def fetch(self, positions: Mapping[tuple[str, int], int], **_: Any) -> dict[tuple[str, int], Fetched]:
        answer = {}
        for key, position in positions.items():
            self.asked.append(position)
            found = b"".join(each for each in self.batches if read_entry(each).last_offset >= position)
            answer[key] = Fetched(memoryview(found), 100, 100, 0, self.aborted)
        return answer


def read(broker: Broker, start: int, end: int, isolation: int = READ_UNCOMMITTED) -> list[tuple[int, bytes | None]]:
    async def work() -> list[tuple[int, bytes | None]]:
        reading = read_records(broker, "t", {0: start}, ends={0: end}, isolation=isolation)  # type: ignore[arg-type]
        return [(record.offset, record.value) async for _, record in reading]

    return asyncio.run(work())


def test_only_what_was_asked_for_comes_though_batches_come_whole() -> None:
    broker = Broker(batch(0, b"a", b"b", b"c"), batch(3, b"d", b"e"))
    assert read(broker, 1, 4) == [(1, b"b"), (2, b"c"), (3, b"d")]
    assert read(broker, 2, 2) == []


def test_reading_goes_on_after_an_offset_gap() -> None:
    assert read(Broker(batch(0, b"a"), batch(10, b"k")), 0, 11) == [(0, b"a"), (10, b"k")]


@pytest.mark.parametrize("codec", [NONE, GZIP])
@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_before_kafka_0_11_are_read_too(magic: int, codec: int) -> None:
    some = [Kept(offset, -1, None, b"%d" % offset) for offset in range(4)]
    old = message_set("aiokafka", magic, codec, some, absolute=not magic)
    pieces = [old[at : at + header.size_bytes] for at, header in entries(old)]
    assert read(Broker(*pieces, batch(4, b"4", b"5")), 1, 6) == [(offset, b"%d" % offset) for offset in range(1, 6)]
    with pytest.raises(CorruptRecordError):
        read(Broker(*pieces[:-1], pieces[-1][:-1] + b"?"), 3, 4)


def test_a_control_batch_is_passed_over() -> None:
    marker = ended(ControlType.COMMIT, 2)
    broker = Broker(transactional(0, b"a", b"b"), marker, batch(3, b"c"))
    assert read(broker, 0, 4) == [(0, b"a"), (1, b"b"), (3, b"c")]


def test_aborted_transactions_are_read_unless_only_committed_ones_are_wanted() -> None:
    marker = ended(ControlType.ABORT, 1)
    broker = Broker(transactional(0, b"a"), marker, transactional(2, b"b"), aborted=((PRODUCER_ID, 0),))
    assert read(broker, 0, 3) == [(0, b"a"), (2, b"b")]
    assert read(broker, 0, 3, READ_COMMITTED) == [(2, b"b")]


def test_a_flipped_bit_is_told() -> None:
    damaged = bytearray(batch(0, b"value"))
    damaged[-2] ^= 1
    with pytest.raises(CorruptRecordError):
        read(Broker(bytes(damaged)), 0, 1)
